package offline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// composite at a generation, whose author last wrote its spec at a time.
func composite(generation int64, written time.Time) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "XDatabase",
		"metadata": map[string]any{
			"name": "db", "namespace": "shop", "uid": "xr-uid", "generation": generation, "creationTimestamp": t0.Format(time.RFC3339),
			"managedFields": []any{map[string]any{
				"manager": "kubectl", "operation": "Update", "time": written.Format(time.RFC3339),
				"fieldsV1": map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}}},
			}},
		},
		"spec": map[string]any{"crossplane": map[string]any{}, "size": int64(1)},
	}}
}

// child with a trace that has a hop of the composite.
func child(t *testing.T, hop string, annotations map[string]any) *Resource {
	t.Helper()
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[v1alpha1.AnnotationKeyTrace] = `[` + hop +
		`,{"apiVersion":"app.example.org/v1","kind":"Thing","name":"b","generation":1,"timestamp":"2026-01-01T12:00:00Z"}]`
	r := Observe(ssa.ToStruct(map[string]any{
		"apiVersion": "app.example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "b", "annotations": annotations},
	}), parent.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "XDatabase"}, Name: "db"})
	if r == nil {
		t.Fatal("no resource")
	}
	return r
}

func hop(generation int64, at time.Time, more string) string {
	return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":%d,"timestamp":%q%s}`,
		generation, at.Format(time.RFC3339), more)
}

// A new generation is an intent only where the author wrote the spec after the last
// known one: Crossplane writes to the spec as well (KR-09-09).
func TestLastIntent(t *testing.T) {
	later := t0.Add(time.Hour)
	noted := Note{Generation: 3, At: t0, State: stateOf(Derive(composite(3, t0), nil, 0, t0).State)}.Annotation()
	cases := map[string]struct {
		reason     string
		generation int64
		written    time.Time
		hop        string
		note       string
		want       Note
	}{
		"First": {reason: "nothing is known of it", generation: 3, written: later, want: Note{Generation: 3, At: later}},
		"Same":  {reason: "as the trace has it", generation: 3, written: t0, hop: hop(3, t0, ""), want: Note{Generation: 3, At: t0}},
		"Machinery": {reason: "Crossplane moved the generation", generation: 5, written: t0, hop: hop(3, t0, ""),
			want: Note{Generation: 3, At: t0}},
		"Next": {reason: "the author wrote again", generation: 5, written: later, hop: hop(3, t0, ""),
			want: Note{Generation: 5, At: later}},
		"OtherObjects": {reason: "a hop of a later generation is of another composite", generation: 2, written: t0, hop: hop(7, t0, ""),
			want: Note{Generation: 2, At: t0}},
		"Note": {reason: "an intent that changed no resource is in the note", generation: 6, written: later, hop: hop(3, t0, ""),
			note: `{"generation":6,"at":"2026-01-01T13:00:00Z"}`, want: Note{Generation: 6, At: later}},
		"Annotated": {reason: "Crossplane moved the generation, and an annotation the time", generation: 5, written: later, hop: hop(3, t0, ""),
			note: noted, want: Note{Generation: 3, At: t0}},
		"NextAnnotated": {reason: "the author wrote another desired state", generation: 6, written: later, hop: hop(3, t0, ""),
			note: strings.Replace(noted, `"state":"`, `"state":"0`, 1), want: Note{Generation: 6, At: later}},
		"AnotherNoted": {reason: "the state of an earlier intent is not that of the last", generation: 5, written: later, hop: hop(4, t0, ""),
			note: noted, want: Note{Generation: 5, At: later}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var observed []*Resource
			if tc.hop != "" {
				observed = []*Resource{child(t, tc.hop, map[string]any{v1alpha1.AnnotationKeySettledIntent: tc.note})}
			}
			c := Derive(composite(tc.generation, tc.written), observed, time.Second, later)
			if d := cmp.Diff(tc.want, noteOf(c.Intent)); d != "" || c.Webhook {
				t.Errorf("%s: -want +got\n%s", tc.reason, d)
			}
		})
	}
}

// An intent that settled in an earlier run stays settled (KR-09-10).
func TestRecall(t *testing.T) {
	xr := composite(3, t0)
	for name, observed := range map[string][]*Resource{
		"Hop": {child(t, hop(3, t0, `,"settled":true`), nil)},
		"Note": {child(t, hop(3, t0, ""), map[string]any{
			v1alpha1.AnnotationKeySettledIntent: `{"generation":3,"at":"2026-01-01T12:00:00Z"}`,
		})},
	} {
		t.Run(name, func(t *testing.T) {
			c := Derive(xr, observed, time.Hour, t0)
			if !c.Latched || c.Settled != 3 || c.SettledIntent() != (Note{Generation: 3, At: t0}) {
				t.Errorf("latched %t at %d, note %v", c.Latched, c.Settled, c.SettledIntent())
			}
		})
	}
	if c := Derive(xr, []*Resource{child(t, hop(3, t0, ""), nil)}, time.Hour, t0); c.Latched || c.Settled != -1 || c.SettledIntent() != (Note{}) {
		t.Errorf("nothing shows that it settled: latched %t at %d", c.Latched, c.Settled)
	}
}

// A composite that settled stores its desired state: the time of the last write alone
// does not distinguish an intent from an annotation (KR-09-10).
func TestSettledState(t *testing.T) {
	settled := child(t, hop(3, t0, `,"settled":true`), nil)
	first := Derive(composite(3, t0), []*Resource{settled}, time.Hour, t0)
	note := parseNote(first.NoteFor(settled.Trace))
	if len(note.State) != 16 || note.Generation != 3 || !note.At.Equal(t0) {
		t.Errorf("note %+v", note)
	}
	again := Derive(composite(5, t0.Add(time.Hour)), []*Resource{child(t, hop(3, t0, `,"settled":true`), map[string]any{
		v1alpha1.AnnotationKeySettledIntent: note.Annotation(),
	})}, time.Hour, t0)
	if got := again.NoteFor(settled.Trace); got != note.Annotation() || !again.Latched {
		t.Errorf("note %s, want %s; latched %t", got, note.Annotation(), again.Latched)
	}
	unsettled := child(t, hop(3, t0, ""), nil)
	if got := Derive(composite(5, t0), []*Resource{unsettled}, time.Hour, t0).NoteFor(unsettled.Trace); got != "" {
		t.Errorf("not settled, and the note is %s", got)
	}
}

// FuzzNote: whatever is stored, reading does not fail, and a note survives both of
// its forms.
func FuzzNote(f *testing.F) {
	f.Add("", int64(0), int64(0))
	f.Add(`{"generation":3,"at":"2026-01-01T12:00:00Z"}`, int64(3), t0.Unix())
	f.Add(`{"generation":"x"}`, int64(1)<<40, int64(-5))
	f.Fuzz(func(t *testing.T, value string, generation, at int64) {
		_ = parseNote(value)
		_ = ConditionNote(conditionWith(value))
		if generation < 0 || generation > 1e17 || at < 0 || at > 1e11 {
			return
		}
		n := Note{Generation: generation, At: time.Unix(at, 0).UTC()}
		if got := parseNote(n.Annotation()); got != n {
			t.Errorf("annotation %s: %v", n.Annotation(), got)
		}
		if got := ConditionNote(conditionWith(n.Reason())); got != n {
			t.Errorf("reason %s: %v", n.Reason(), got)
		}
	})
}

func conditionWith(reason string) map[string]any {
	condition := map[string]any{"type": v1alpha1.ConditionSettled, "status": "True", "reason": reason}
	return map[string]any{"status": map[string]any{"conditions": []any{condition}}}
}

// FuzzLookback: whatever is stored, the changed fields are computed, and the value
// stored next is read back as it was.
func FuzzLookback(f *testing.F) {
	f.Add(`[{"at":["spec","size"],"was":5}]`, `{"spec":{"size":6}}`)
	f.Add(`[{"at":[],"was":7},{"at":["a","b","c"]}]`, `{"spec":[]}`)
	f.Add(`[{"at":7}]`, `{}`)
	f.Fuzz(func(t *testing.T, stored, object string) {
		content := map[string]any{}
		if json.Unmarshal([]byte(object), &content) != nil {
			return
		}
		l := lookback{before: parseLookback(stored)}
		for _, at := range [][]string{{"spec", "size"}, {"data"}} {
			l.now = append(l.now, settledField{At: at, Was: get(content, at)})
		}
		_ = l.details()
		for _, l.settled = range []bool{true, false} {
			next := l.annotation()
			if len(next) > MaxLookback || next != "" && strings.Contains(next, "\n") {
				t.Errorf("%d bytes: %s", len(next), next)
			}
			if back := parseLookback(next); next != "" && len(back) == 0 {
				t.Errorf("does not parse: %s", next)
			}
		}
	})
}
