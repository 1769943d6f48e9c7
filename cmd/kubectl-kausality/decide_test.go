package main

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

// What a person sees before the question: per object what comes of it, what is
// left out and why, and how many stay.
func TestShow(t *testing.T) {
	c, _ := tester()
	freeze := func(name string) intended {
		return intended{on: xdatabase(t, name, nil), key: v1alpha1.AnnotationKeyFreeze, next: "Nothing below it is changed."}
	}
	off := awake(xdatabase(t, "d", map[string]string{v1alpha1.AnnotationKeySnooze: "{}", v1alpha1.AnnotationKeyLegacySnooze: "soon"}))
	steps := []step{
		{freeze("a"), wrote(v1alpha1.AnnotationKeyFreeze, "", `{"user":"hans"}`)},
		{freeze("b"), wrote(v1alpha1.AnnotationKeyFreeze, "true", `{"user":"hans"}`)},
		{freeze("c"), wrote(v1alpha1.AnnotationKeyFreeze, "true", "true")},
		{off[0], wrote(off[0].key, "soon", "")},
		{off[1], wrote(off[1].key, "{}", "")},
		{intended{on: xdatabase(t, "e", nil), head: "Database team/e, on XDatabase team/orders", wrong: errors.New("it is gone")}, annotate.Change{}},
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
  1 of 6 stay as they are.
`,
		true: `  XDatabase team/a
  XDatabase team/b
  XDatabase team/d
  Database team/e, on XDatabase team/orders
      left out: it is gone
  1 of 6 stay as they are.
`,
	} {
		var out bytes.Buffer
		if n := c.show(&out, steps, brief); n != 3 {
			t.Errorf("%d are changed, want 3", n)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("brief %t (-want +got):\n%s", brief, diff)
		}
	}
}

// Both forms of a snooze go; the newer is looked for where there is none.
func TestAwake(t *testing.T) {
	const older, newer = v1alpha1.AnnotationKeyLegacySnooze, v1alpha1.AnnotationKeySnooze
	for name, tc := range map[string]struct {
		in   map[string]string
		want []string
	}{
		"None":  {nil, []string{newer}},
		"Newer": {map[string]string{newer: "x"}, []string{newer}},
		"Older": {map[string]string{older: "x"}, []string{older}},
		"Both":  {map[string]string{newer: "x", older: "x"}, []string{older, newer}},
	} {
		got := awake(xdatabase(t, "a", tc.in))
		var keys []string
		for _, i := range got {
			keys = append(keys, i.key)
		}
		if !slices.Equal(keys, tc.want) || count(got) != 1 {
			t.Errorf("%s: want %v of one object, got %v of %d", name, tc.want, keys, count(got))
		}
	}
}

// Without a terminal nobody is asked: it says what to add.
func TestConfirm(t *testing.T) {
	c, _ := tester()
	object := (&whichOptions{}).decision("Freeze %s?")
	for name, tc := range map[string]struct {
		d    decision
		want string
	}{
		"Objects":     {object, "give --yes, or name one object; --dry-run shows"},
		"Differences": {decision{differences: true}, "give --yes, or the ids of what you mean"},
	} {
		usage := usageError{}
		if err := c.confirm("Do it?", false, tc.d.instead()); !errors.As(err, &usage) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want a wrong command line with %q, got %v", name, tc.want, err)
		}
		if err := c.confirm("Do it?", true, tc.d.instead()); err != nil {
			t.Errorf("%s: with --yes: %v", name, err)
		}
	}
}

// What a flag selects is asked about even where it is one object.
func TestNaming(t *testing.T) {
	for want, list := range map[naming][]whichOptions{byName: {{}}, asGroup: {{all: true}, {selector: "a=b"}}} {
		for _, o := range list {
			if got := o.decision("").named; got != want {
				t.Errorf("%+v: want %d, got %d", o, want, got)
			}
		}
	}
	if a, b := these(1, "object"), these(2, "object"); a != "this object" || b != "these 2 objects" {
		t.Errorf("%s, %s", a, b)
	}
}

// Where nothing is to be written, what a program reads is a list all the same.
func TestReportNothing(t *testing.T) {
	for value, want := range map[string]string{formatJSON: "[]\n", formatYAML: "[]\n", formatName: "", formatTable: ""} {
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		c := &cli{IOStreams: streams}
		o := &decisionOptions{format: format{value: value}}
		if err := c.writeAll(t.Context(), o, nil, nil); err != nil || out.String() != want {
			t.Errorf("%q: want %q, got %q, %v", value, want, out, err)
		}
	}
}
