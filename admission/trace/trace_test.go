package trace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func hop(kind, namespace string) v1alpha1.Hop {
	return v1alpha1.Hop{APIVersion: "example.org/v1", Kind: kind, Name: strings.ToLower(kind), Namespace: namespace, Generation: 2,
		User: "alice", Timestamp: metav1.NewTime(noon)}
}

func clusterHop(kind string) v1alpha1.Hop {
	h := hop(kind, "")
	h.ClusterScoped = true
	return h
}

func ref(kind, namespace string) parent.Ref {
	return parent.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: kind}, Namespace: namespace,
		Name: strings.ToLower(kind)}
}

func TestParse(t *testing.T) {
	one := Trace{{APIVersion: "v1", Kind: "A", Name: "a", Generation: 3, User: "alice", Timestamp: metav1.NewTime(noon)}}
	cases := map[string]struct {
		reason string
		in     string
		want   Trace
		fails  bool
	}{
		"None": {reason: "no annotation, no trace"},
		"JSON": {reason: "as we write it",
			in: `[{"apiVersion":"v1","kind":"A","name":"a","generation":3,"user":"alice","timestamp":"2026-01-02T12:00:00Z"}]`, want: one},
		"YAML": {reason: "as written by hand",
			in: "- apiVersion: v1\n  kind: A\n  name: a\n  generation: 3\n  user: alice\n  timestamp: \"2026-01-02T12:00:00Z\"\n", want: one},
		"FlowYAML": {reason: "JSON-like YAML is YAML",
			in: "[{apiVersion: v1, kind: A, name: a, generation: 3, user: alice, timestamp: '2026-01-02T12:00:00Z'}]", want: one},
		"Unknown": {reason: "fields of a newer version are not minded",
			in: `[{"apiVersion":"v1","kind":"A","name":"a","generation":3,"user":"alice","timestamp":"2026-01-02T12:00:00Z","new":1}]`, want: one},
		"Garbage":   {reason: "an error, on one line", in: "[{", fails: true},
		"NotAList":  {reason: "an object is no trace", in: `{"kind":"A"}`, fails: true},
		"BadTime":   {reason: "times are RFC 3339", in: `[{"timestamp":"noon"}]`, fails: true},
		"EmptyList": {reason: "no hops", in: "[]", want: Trace{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.in)
			if (err != nil) != tc.fails || err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s: error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if tc.fails && Of(map[string]string{v1alpha1.AnnotationKeyTrace: tc.in}) != nil {
				t.Errorf("%s: what does not parse counts as no trace", tc.reason)
			}
		})
	}
}

func TestString(t *testing.T) {
	tr := Trace{hop("A", "team"), hop("B", "")}
	s := tr.String()
	if strings.Contains(s, "\n") {
		t.Errorf("want a single line: %s", s)
	}
	if diff := cmp.Diff(tr, Of(map[string]string{v1alpha1.AnnotationKeyTrace: s})); diff != "" {
		t.Errorf("does not survive its own form:\n%s", diff)
	}
	if tr.Own().Kind != "B" || tr.Origin().Kind != "A" || Trace(nil).Own() != nil || Trace(nil).Origin() != nil {
		t.Error("origin first, own hop last, nil for none")
	}
}

// The chain of KR-07-03, there and back: Claim in a namespace, cluster-scoped
// XR, namespaced MR; each hop's namespace is given where it differs from the
// carrier's (KR-07-01).
func TestExtendNamespaces(t *testing.T) {
	cases := map[string]struct {
		reason string
		of     Trace
		from   parent.Ref
		hop    v1alpha1.Hop
		to     string
		want   Trace
	}{
		"SameNamespace": {reason: "nothing to give", of: Trace{hop("A", "")}, from: ref("A", "team"), hop: hop("B", ""),
			to: "team", want: Trace{hop("A", ""), hop("B", "")}},
		"ClusterToCluster": {reason: "nothing to give", of: Trace{hop("A", "")}, from: ref("A", ""), hop: hop("B", ""),
			want: Trace{hop("A", ""), hop("B", "")}},
		"ClaimToXR": {reason: "the Claim's namespace", of: Trace{hop("Claim", "")}, from: ref("Claim", "team"),
			hop: hop("XR", ""), want: Trace{hop("Claim", "team"), hop("XR", "")}},
		"XRToMRThere": {reason: "the XR is cluster-scoped, the Claim elsewhere", of: Trace{hop("Claim", "team"), hop("XR", "")},
			from: ref("XR", ""), hop: hop("MR", ""), to: "infra", want: Trace{hop("Claim", "team"), clusterHop("XR"), hop("MR", "")}},
		"XRToMRBack": {reason: "the Claim's namespace is the carrier's again", of: Trace{hop("Claim", "team"), hop("XR", "")},
			from: ref("XR", ""), hop: hop("MR", ""), to: "team", want: Trace{hop("Claim", ""), clusterHop("XR"), hop("MR", "")}},
		"BackToCluster": {reason: "a namespaced carrier's trace on a cluster-scoped one",
			of: Trace{hop("Claim", ""), clusterHop("XR"), hop("MR", "")}, from: ref("MR", "team"), hop: hop("Y", ""),
			want: Trace{hop("Claim", "team"), hop("XR", ""), hop("MR", "team"), hop("Y", "")}},
		"Elsewhere": {reason: "from one namespace to another", of: Trace{hop("A", ""), hop("B", "other")},
			from: ref("B", "team"), hop: hop("C", ""), to: "other", want: Trace{hop("A", "team"), hop("B", ""), hop("C", "")}},
		"NoParentTrace": {reason: "the child's hop alone", from: ref("A", "team"), hop: hop("B", ""), to: "team",
			want: Trace{hop("B", "")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := append(Trace(nil), tc.of...)
			got := Extend(tc.of, tc.from, tc.hop, tc.to)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, append(Trace(nil), tc.of...)); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestHopAndLabels covers KR-07-06.
func TestHopAndLabels(t *testing.T) {
	got := Hop(ref("A", "team"), 4, "alice", time.Date(2026, 1, 2, 13, 0, 0, 999, time.FixedZone("CET", 3600)))
	want := v1alpha1.Hop{APIVersion: "example.org/v1", Kind: "A", Name: "a", Generation: 4, User: "alice", Timestamp: metav1.NewTime(noon)}
	if diff := cmp.Diff(want, got); diff != "" || got.Timestamp.Location() != time.UTC {
		t.Errorf("RFC 3339 UTC, whole seconds: -want, +got:\n%s", diff)
	}
	in := map[string]string{"kausality.io/trace-ticket": "OPS-1", "kausality.io/trace-": "x", "kausality.io/trace": "[]", "trace-a": "b"}
	before := maps.Clone(in)
	if diff := cmp.Diff(map[string]string{"ticket": "OPS-1"}, Labels(in)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, in); diff != "" || Labels(nil) != nil {
		t.Errorf("input modified, or labels of nothing:\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "[]", "null", "[null]", `[{"apiVersion":"v1","kind":"A","user":"","timestamp":null}]`,
		`[{"apiVersion":"v1","kind":"A","name":"a","generation":3,"user":"alice","timestamp":"2026-01-02T12:00:00Z","labels":{"a":"b"},"approval":{"claim":"c"}}]`,
		"- apiVersion: v1\n  kind: A\n", "&a [*a]", "[{", `[{"generation":1e3}]`, `[{"generation":1.0}]`, `[{"Kind":"A"}]`, "[1,2]x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		tr, err := Parse(in)
		if err != nil || slices.ContainsFunc(tr, func(h v1alpha1.Hop) bool { return h.Timestamp.UTC().Year() > 9999 }) {
			return // RFC 3339 ends there
		}
		again, err := Parse(tr.String())
		if err != nil {
			t.Fatalf("cannot read what we wrote: %v", err)
		}
		if again.String() != tr.String() {
			t.Errorf("not stable: %s, then %s", tr, again)
		}
	})
}

// TestParseIndependent: a caller that modifies the hops of a trace changes no
// other trace that was read from the same annotation.
func TestParseIndependent(t *testing.T) {
	value := Trace{hop("A", "team"), hop("B", "")}.String()
	for range 3 {
		got, err := Parse(value)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(Trace{hop("A", "team"), hop("B", "")}, got); d != "" {
			t.Errorf("-want, +got:\n%s", d)
		}
		got[0].User, got[1].Settled = "mallory", true
	}
}

// BenchmarkParse of a trace of two hops: the same one again, and another one
// each time.
func BenchmarkParse(b *testing.B) {
	b.Run("Known", func(b *testing.B) {
		value := Trace{hop("A", "team"), hop("B", "")}.String()
		b.ReportAllocs()
		for b.Loop() {
			if t, err := Parse(value); err != nil || len(t) != 2 {
				b.Fatal(err)
			}
		}
	})
	b.Run("New", func(b *testing.B) {
		values := make([]string, 4*maxParsed)
		for i := range values {
			h := hop("A", "team")
			h.Generation = int64(i + 1)
			values[i] = Trace{h, hop("B", "")}.String()
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if t, err := Parse(values[i%len(values)]); err != nil || len(t) != 2 {
				b.Fatal(err)
			}
		}
	})
}

// TestAuthors covers KR-14-61: who initiated the intents of an object from one of them on.
func TestAuthors(t *testing.T) {
	own := `[{"apiVersion":"v1","kind":"App","name":"app","generation":7,"user":"hans","timestamp":"2026-01-01T00:00:00Z"}]`
	at := func(authors string) map[string]string {
		return map[string]string{v1alpha1.AnnotationKeyTrace: own, v1alpha1.AnnotationKeyAuthors: authors}
	}
	cases := map[string]struct {
		annotations map[string]string
		since       int64
		want        []string
	}{
		"NoTrace": {annotations: nil},
		"Last":    {annotations: at(""), since: 7, want: []string{"hans"}},
		"Earlier": {annotations: at(""), since: 6, want: []string{"hans", ""}},
		"Later":   {annotations: at(""), since: 9, want: []string{"hans"}},
		"Listed": {annotations: at(`[{"user":"anna","generation":3},{"user":"bob","generation":5},{"user":"hans","generation":7}]`), since: 5,
			want: []string{"hans", "bob"}},
		"Before":   {annotations: at(`[{"user":"bob","generation":5},{"user":"hans","generation":7}]`), since: 4, want: []string{"hans", "bob", ""}},
		"Unnamed":  {annotations: at(`[{"user":"","generation":5},{"user":"hans","generation":7}]`), since: 5, want: []string{"hans", ""}},
		"NotAList": {annotations: at(`{`), since: 7, want: []string{"hans"}},
	}
	for name, tc := range cases {
		if got := Authors(tc.annotations, tc.since); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	value := WithInitiator(at(""), "bob", 8)
	if value != `[{"user":"hans","generation":7},{"user":"bob","generation":8}]` {
		t.Errorf("the first one keeps who initiated the intent before: %s", value)
	}
	if value = WithInitiator(at(value), "hans", 9); value != `[{"user":"bob","generation":8},{"user":"hans","generation":9}]` {
		t.Errorf("each user is listed once: %s", value)
	}
	for i := range 3 * v1alpha1.MaxInitiators {
		value = WithInitiator(at(value), fmt.Sprint(i), int64(10+i))
	}
	if n := len(initiators(at(value), nil)); n != v1alpha1.MaxInitiators {
		t.Errorf("%d users are listed", n)
	}
}
