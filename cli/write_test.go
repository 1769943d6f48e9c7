package cli

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

func xdatabase(t *testing.T, name string, annotations map[string]string) target {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("example.org/v1")
	u.SetKind("XDatabase")
	u.SetNamespace("team")
	u.SetName(name)
	u.SetAnnotations(annotations)
	return target{Unstructured: u, resource: "xdatabases.example.org"}
}

func wrote(key, before, after string) annotate.Change {
	c := annotate.Change{Key: key, Unchanged: before == after}
	if before != "" {
		c.Before = &before
	}
	if after != "" {
		c.After = &after
	}
	return c
}

// TestShow covers what is printed before the question: per object the change,
// what is left out and why, and how many are unchanged.
func TestShow(t *testing.T) {
	s, _ := testSession()
	freeze := func(name string) annotationWrite {
		return annotationWrite{on: xdatabase(t, name, nil), key: v1alpha1.AnnotationKeyFreeze, next: "Nothing below it is changed."}
	}
	off := endSnooze(xdatabase(t, "d", map[string]string{v1alpha1.AnnotationKeySnooze: "{}", v1alpha1.AnnotationKeyLegacySnooze: "soon"}))
	steps := []step{
		{annotationWrite: freeze("a"), change: wrote(v1alpha1.AnnotationKeyFreeze, "", `{"user":"hans"}`)},
		{annotationWrite: freeze("b"), change: wrote(v1alpha1.AnnotationKeyFreeze, "true", `{"user":"hans"}`)},
		{annotationWrite: freeze("c"), change: wrote(v1alpha1.AnnotationKeyFreeze, "true", "true")},
		{annotationWrite: off[0], change: wrote(off[0].key, "soon", "")},
		{annotationWrite: off[1], change: wrote(off[1].key, "{}", "")},
		{annotationWrite: annotationWrite{on: xdatabase(t, "e", nil), head: "Database team/e, on XDatabase team/orders", err: errors.New("it is gone")}},
	}
	for brief, want := range map[bool]string{
		false: `  XDatabase team/a
      kausality.io/freeze: none → {"user":"hans"}
      Nothing below it is changed.
  XDatabase team/b
      kausality.io/freeze: true → {"user":"hans"}
      Nothing below it is changed.
  XDatabase team/d
      kausality.io/snooze-until: soon → none
      kausality.io/snooze: {} → none
  Database team/e, on XDatabase team/orders
      left out: it is gone
  1 of 6 are unchanged.
`,
		true: `  XDatabase team/a
  XDatabase team/b
  XDatabase team/d
  Database team/e, on XDatabase team/orders
      left out: it is gone
  1 of 6 are unchanged.
`,
	} {
		var out bytes.Buffer
		if n := (writer{session: s}).show(&out, steps, brief); n != 3 {
			t.Errorf("%d are changed, want 3", n)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("brief %t (-want +got):\n%s", brief, diff)
		}
	}
}

// TestEndSnooze: both forms of a snooze are removed (KR-02-08).
func TestEndSnooze(t *testing.T) {
	const older, newer = v1alpha1.AnnotationKeyLegacySnooze, v1alpha1.AnnotationKeySnooze
	for name, tc := range map[string]struct {
		in   map[string]string
		want []string
	}{
		"None":  {in: nil, want: []string{newer}},
		"Newer": {in: map[string]string{newer: "x"}, want: []string{newer}},
		"Older": {in: map[string]string{older: "x"}, want: []string{older}},
		"Both":  {in: map[string]string{newer: "x", older: "x"}, want: []string{older, newer}},
	} {
		got := endSnooze(xdatabase(t, "a", tc.in))
		var keys []string
		for _, i := range got {
			keys = append(keys, i.key)
		}
		if !slices.Equal(keys, tc.want) || count(got) != 1 {
			t.Errorf("%s: want %v of one object, got %v of %d", name, tc.want, keys, count(got))
		}
	}
}

// TestConfirm without a terminal: the error names what to add.
func TestConfirm(t *testing.T) {
	s, _ := testSession()
	object := (&selectOptions{}).decision("Freeze %s?")
	for name, tc := range map[string]struct {
		d    decision
		want string
	}{
		"Objects":     {d: object, want: "give --yes, or name one object; --dry-run shows"},
		"Differences": {d: decision{differences: true}, want: "give --yes, or the ids of the changes"},
	} {
		usage := usageError{}
		if err := s.confirm("Do it?", false, tc.d.nonInteractiveHint()); !errors.As(err, &usage) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want a wrong command line with %q, got %v", name, tc.want, err)
		}
		if err := s.confirm("Do it?", true, tc.d.nonInteractiveHint()); err != nil {
			t.Errorf("%s: with --yes: %v", name, err)
		}
	}
}

// TestSelection: what a flag selects is confirmed even where it is one object.
func TestSelection(t *testing.T) {
	for want, list := range map[selection][]selectOptions{byName: {{}}, asGroup: {{all: true}, {selector: "a=b"}}} {
		for _, o := range list {
			if got := o.decision("").selection; got != want {
				t.Errorf("%+v: want %d, got %d", o, want, got)
			}
		}
	}
	if a, b := pluralize(1, "object"), pluralize(2, "object"); a != "this object" || b != "these 2 objects" {
		t.Errorf("%s, %s", a, b)
	}
}

// TestReportNothing: structured output is a list even where nothing is written.
func TestReportNothing(t *testing.T) {
	for value, want := range map[string]string{formatJSON: "[]\n", formatYAML: "[]\n", formatName: "", formatTable: ""} {
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		s := &session{IOStreams: streams}
		o := &writeOptions{format: format{value: value}}
		if err := (writer{s, o}).writeAll(t.Context(), nil, nil); err != nil || out.String() != want {
			t.Errorf("%q: want %q, got %q, %v", value, want, out, err)
		}
	}
}
