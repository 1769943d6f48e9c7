package trace

import (
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// xr at a generation, with its own hop at own (0: never traced) at noon, and
// one managedFields entry.
func xr(generation, own int64, entry map[string]any) *unstructured.Unstructured {
	meta := map[string]any{"name": "xr", "generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z"}
	if own > 0 {
		h := hop("XR", "")
		h.Generation = own
		meta["annotations"] = map[string]any{v1alpha1.AnnotationKeyTrace: Trace{hop("Claim", "team"), h}.String()}
	}
	fields := []any{map[string]any{"manager": "crossplane-status", "operation": "Apply", "subresource": "status", "time": "2026-01-02T13:00:00Z",
		"fieldsV1": map[string]any{"f:status": map[string]any{"f:x": map[string]any{}}}}}
	if entry != nil {
		fields = append(fields, entry)
	}
	meta["managedFields"] = fields
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "XR", "metadata": meta, "spec": map[string]any{"size": "s"}}}
}

func entry(manager, subresource string, at time.Time, fields map[string]any) map[string]any {
	out := map[string]any{"manager": manager, "operation": "Update", "time": at.Format(time.RFC3339), "fieldsV1": fields}
	if subresource != "" {
		out["subresource"] = subresource
	}
	return out
}

// TestIntent covers KR-01-08, KR-01-10, KR-01-12.
func TestIntent(t *testing.T) {
	spec := func(field string) map[string]any {
		return map[string]any{"f:spec": map[string]any{"f:" + field: map[string]any{}}}
	}
	later, soon := noon.Add(time.Minute), noon.Add(5*time.Second)
	cases := map[string]struct {
		reason       string
		object       *unstructured.Unstructured
		role         parent.Role
		want         int64
		unattributed bool
	}{
		"Traced":             {reason: "the last hop of its own trace", object: xr(2, 2, nil), role: parent.RoleComposite, want: 2},
		"BumpedByCrossplane": {reason: "a later generation is no intent", object: xr(7, 2, nil), role: parent.RoleComposite, want: 2},
		"NeverTraced": {reason: "an unattributed hop at its generation", object: xr(7, 0, nil), role: parent.RoleComposite,
			want: 7, unattributed: true},
		"ChangedWhileAway": {reason: "managedFields show an intent newer than the hop",
			object: xr(7, 2, entry("kubectl", "", later, spec("size"))), role: parent.RoleComposite, want: 7, unattributed: true},
		"AwayWithoutBump": {reason: "the generation did not move: no desired state was changed",
			object: xr(2, 2, entry("kubectl", "", later, spec("size"))), role: parent.RoleComposite, want: 2},
		"OlderThanTheHop": {reason: "that one was traced", object: xr(7, 2, entry("kubectl", "", noon, spec("size"))),
			role: parent.RoleComposite, want: 2},
		"WithinTolerance": {reason: "times are whole seconds, and the store comes after admission",
			object: xr(7, 2, entry("kubectl", "", soon, spec("size"))), role: parent.RoleComposite, want: 2},
		"Metadata": {reason: "annotations are no intent",
			object: xr(7, 2, entry("kubectl", "", later, map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{"f:a": map[string]any{}}}})),
			role:   parent.RoleComposite, want: 2},
		"Machinery": {reason: "Crossplane's machinery is no intent",
			object: xr(7, 2, entry("crossplane", "", later, spec("resourceRefs"))), role: parent.RoleComposite, want: 2},
		"MachineryModern": {reason: "nor is spec.crossplane",
			object: xr(7, 2, entry("crossplane", "", later,
				map[string]any{"f:spec": map[string]any{"f:crossplane": map[string]any{"f:resourceRefs": map[string]any{}}}})),
			role: parent.RoleComposite, want: 2},
		"MachineryElsewhere": {reason: "another kind's resourceRefs are its author's",
			object: xr(7, 2, entry("kubectl", "", later, spec("resourceRefs"))), role: parent.RoleNone, want: 7, unattributed: true},
		"OwnController": {reason: "a manager that also writes the status is no person",
			object: xr(7, 2, entry("crossplane-status", "", later, spec("size"))), role: parent.RoleComposite, want: 2},
		"Scale": {reason: "every scale entry is an intent",
			object: xr(7, 2, entry("kubectl", "scale", later, spec("replicas"))), role: parent.RoleNone, want: 7, unattributed: true},
		"ScaleByController": {reason: "by whomever", object: xr(7, 2, entry("crossplane-status", "scale", later, spec("replicas"))),
			role: parent.RoleNone, want: 7, unattributed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.object.DeepCopy()
			s := parent.Sum(tc.object, tc.role)
			got, recorded := Intent(s)
			if got.Generation != tc.want || got.Unattributed != tc.unattributed || recorded == tc.unattributed {
				t.Errorf("%s: got generation %d, unattributed %t, recorded %t", tc.reason, got.Generation, got.Unattributed, recorded)
			}
			if got.Unattributed && got.User != "" {
				t.Errorf("%s: blames %q", tc.reason, got.User)
			}
			current := Current(s)
			if diff := cmp.Diff(got, *current.Own()); diff != "" {
				t.Errorf("%s: Current does not end in the intent:\n%s", tc.reason, diff)
			}
			if n := len(current); recorded && n != 2 || !recorded && n != 1 {
				t.Errorf("%s: %d hops; the stored trace stays whole, an unattributed intent has no other hop", tc.reason, n)
			}
			if diff := cmp.Diff(before, tc.object); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestIntentSoonAfterAnUnattributedHop: the time of such a hop is one of the object's own, and there is nothing to tolerate: a later entry is of
// another write (KR-13-75).
func TestIntentSoonAfterAnUnattributedHop(t *testing.T) {
	fields := map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}}}
	for name, tc := range map[string]struct {
		reason     string
		generation int64
		at         time.Time
		want       int64
	}{
		"Later":     {reason: "another write changed it", generation: 3, at: noon.Add(2 * time.Second), want: 3},
		"Same":      {reason: "the hop is of that write; what its controller wrote since is no intent", generation: 3, at: noon, want: 2},
		"Unchanged": {reason: "a label, which is no change", generation: 2, at: noon.Add(2 * time.Second), want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := xr(tc.generation, 0, entry("kubectl", "", tc.at, fields))
			h := hop("XR", "")
			h.Generation, h.Unattributed, h.User = 2, true, ""
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyTrace: Trace{h}.String()})
			if got, _ := Intent(parent.Sum(o, parent.RoleNone)); got.Generation != tc.want || !got.Unattributed {
				t.Errorf("%s: want %d, got %+v", tc.reason, tc.want, got)
			}
		})
	}
}

// TestKept: a transition of the gate is no intent, where managedFields have a later time for the manager of the spec, too: it keeps
// the intent generation, which counts until the object changes again (KR-01-10).
func TestKept(t *testing.T) {
	spec := map[string]any{"f:spec": map[string]any{"f:size": map[string]any{}}}
	mr := func(generation int64, at time.Time, gate string) *parent.State {
		o := xr(generation, 2, entry("argocd", "", at, spec))
		if gate != "" {
			annotate(o, v1alpha1.AnnotationKeyGate, gate)
		}
		return parent.Sum(o, parent.RoleManaged)
	}
	later := noon.Add(time.Minute)
	for name, tc := range map[string]struct {
		reason        string
		before, after *parent.State
		generation    int64
		want          int64
	}{
		"Same":        {reason: "the trace shows it", before: mr(2, noon, ""), after: mr(2, noon, ""), generation: 3, want: 0},
		"Label":       {reason: "a label since, of the manager of the spec", before: mr(2, later, ""), after: mr(2, later, ""), generation: 3, want: 2},
		"InThisWrite": {reason: "the write itself moves the time", before: mr(2, noon, ""), after: mr(2, later, ""), generation: 3, want: 2},
		"NotObserved": {reason: "an intent that was not observed stays that of its generation", before: mr(3, later, ""),
			after: mr(3, later, ""), generation: 4, want: 3},
		"Again": {reason: "it is carried on", before: mr(4, later, `{"generation":4,"intent":2}`), after: mr(4, later, `{"generation":4,"intent":2}`),
			generation: 5, want: 2},
		"SameGeneration": {reason: "also by a transition that leaves the mask", before: mr(4, later, `{"generation":4,"intent":2}`),
			after: mr(4, later, `{"generation":4,"intent":2}`), generation: 4, want: 2},
		"ChangedSince": {reason: "but not past a change", before: mr(5, later, `{"generation":4,"intent":2}`), after: mr(5, later, `{"generation":4,"intent":2}`),
			generation: 6, want: 5},
		"Ahead": {reason: "nor is one ahead of the object", before: mr(4, later, `{"generation":4,"intent":9}`),
			after: mr(4, later, `{"generation":4,"intent":9}`), generation: 5, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			got := Kept(tc.before, tc.after, tc.generation)
			if got != tc.want {
				t.Fatalf("%s: want %d, got %d", tc.reason, tc.want, got)
			}
			was, recorded := Intent(tc.before)
			after := *tc.after
			after.Generation, after.Annotations = tc.generation, maps.Clone(after.Annotations)
			after.Annotations[v1alpha1.AnnotationKeyGate] = fmt.Sprintf(`{"generation":%d,"intent":%d}`, tc.generation, got)
			if is, still := Intent(&after); is.Generation != was.Generation || still != recorded {
				t.Errorf("%s: the intent was %d, %t, and is %d, %t", tc.reason, was.Generation, recorded, is.Generation, still)
			}
		})
	}
}

// Kinds without a generation have the time alone.
func TestIntentWithoutGeneration(t *testing.T) {
	h := hop("CM", "")
	h.Generation = 0
	s := &parent.State{Ref: ref("CM", "team"), Annotations: map[string]string{v1alpha1.AnnotationKeyTrace: Trace{h}.String()}}
	if got, recorded := Intent(s); !recorded || got.User != "alice" {
		t.Errorf("unchanged since the hop: got %+v", got)
	}
	s.IntentTime = noon.Add(time.Minute)
	if got, recorded := Intent(s); recorded || !got.Unattributed || !got.Timestamp.Equal(&metav1.Time{Time: s.IntentTime}) {
		t.Errorf("changed while away: got %+v", got)
	}
}

// The stored digest of the desired state at which the object settled
// distinguishes a label by the spec's own author from an intent (KR-01-11).
func TestIntentAsSettled(t *testing.T) {
	later := noon.Add(time.Minute)
	label := map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:a": map[string]any{}}},
		"f:spec": map[string]any{"f:size": map[string]any{}}}
	// settle records the state of the object as it is now for a generation.
	settle := func(o *unstructured.Unstructured, generation int64) {
		annotate(o, v1alpha1.AnnotationKeySettledGeneration, strconv.FormatInt(generation, 10))
		annotate(o, v1alpha1.AnnotationKeySettledState, parent.Sum(o, parent.RoleComposite).SettledState(generation))
	}
	size := func(o *unstructured.Unstructured, size string) {
		_ = unstructured.SetNestedField(o.Object, size, "spec", "size")
	}
	machinery := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, "r2", "spec", "crossplane", "compositionRevisionRef", "name")
	}
	cases := map[string]struct {
		reason string
		own    int64
		entry  map[string]any
		mods   func(*unstructured.Unstructured)
		want   int64
	}{
		"Label": {reason: "a label by who owns the spec, and a generation that Crossplane moved", own: 2,
			entry: entry("argocd", "", later, label), mods: func(o *unstructured.Unstructured) { settle(o, 2); machinery(o) }, want: 2},
		"NotRecorded": {reason: "the same where nothing is recorded: as managedFields have it", own: 2,
			entry: entry("argocd", "", later, label), mods: machinery, want: 7},
		"Changed": {reason: "the spec is another", own: 2, entry: entry("argocd", "", later, label),
			mods: func(o *unstructured.Unstructured) { settle(o, 2); size(o, "l") }, want: 7},
		"ChangedSoon": {reason: "within the tolerance of times, too (KR-13-51)", own: 2, entry: entry("argocd", "", noon.Add(2*time.Second), label),
			mods: func(o *unstructured.Unstructured) { settle(o, 2); size(o, "l") }, want: 7},
		"LabelSoon": {reason: "a label then is none", own: 2, entry: entry("argocd", "", noon.Add(2*time.Second), label),
			mods: func(o *unstructured.Unstructured) { settle(o, 2); machinery(o) }, want: 2},
		"ChangedSoonUnsettled": {reason: "nothing shows it: the intent before is under way still", own: 3,
			entry: entry("argocd", "", noon.Add(2*time.Second), label),
			mods:  func(o *unstructured.Unstructured) { settle(o, 2); size(o, "l") }, want: 3},
		"Initialised": {reason: "its own controller filled in a field since it settled: the digests do not match", own: 2,
			entry: entry("argocd", "", later, label), mods: func(o *unstructured.Unstructured) {
				settle(o, 2)
				_ = unstructured.SetNestedField(o.Object, "z", "spec", "zone")
			}, want: 7},
		"BackUnsettled": {reason: "there (recorded, at 3) and back while we were away: what settled before does not matter", own: 3,
			entry: entry("argocd", "", later, label), mods: func(o *unstructured.Unstructured) { settle(o, 2) }, want: 7},
		"BackSettled": {reason: "the same where the other state settled too", own: 3, entry: entry("argocd", "", later, label),
			mods: func(o *unstructured.Unstructured) { size(o, "l"); settle(o, 3); size(o, "s") }, want: 7},
		"OldRelease": {reason: "the latch is of a later intent, what is recorded is not", own: 3,
			entry: entry("argocd", "", later, label), mods: func(o *unstructured.Unstructured) {
				settle(o, 2)
				annotate(o, v1alpha1.AnnotationKeySettledGeneration, "3")
			}, want: 7},
		"Copied": {reason: "what another object settled at was copied onto it", own: 2, entry: entry("argocd", "", later, label),
			mods: func(o *unstructured.Unstructured) { o.SetUID("other"); settle(o, 2); o.SetUID("u") }, want: 7},
		"Scaled": {reason: "a scale there and back, or an entry that an editor wrote: the state is the one that settled", own: 2,
			entry: entry("kubectl", "scale", later, label), mods: func(o *unstructured.Unstructured) { settle(o, 2) }, want: 2},
		"Forged": {reason: "a latch alone proves nothing", own: 2, entry: entry("argocd", "", later, label),
			mods: func(o *unstructured.Unstructured) { annotate(o, v1alpha1.AnnotationKeySettledGeneration, "2") }, want: 7},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := xr(7, tc.own, tc.entry)
			tc.mods(o)
			got, recorded := Intent(parent.Sum(o, parent.RoleComposite))
			if got.Generation != tc.want || recorded != (tc.want != 7) || got.Unattributed == recorded {
				t.Errorf("%s: want %d, got generation %d, recorded %t, unattributed %t", tc.reason, tc.want, got.Generation, recorded, got.Unattributed)
			}
		})
	}
}

func annotate(o *unstructured.Unstructured, key, value string) {
	a := o.GetAnnotations()
	a[key] = value
	o.SetAnnotations(a)
}
