package drift

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// spec of a refused change of a Part.
func partSpec(id string, op admission.Operation) v1alpha1.DriftSpec {
	return v1alpha1.DriftSpec{
		ID: id, Operation: string(op), Relation: v1alpha1.RelationControllerChild,
		Parent: v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "App", Namespace: "ns", Name: "app", UID: "p"},
		Child:  v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "Part", Namespace: "ns", Name: "one", UID: "u"},
	}
}

// heldPath is what is held of one path since an intent.
func heldPath(path, value string, since int64) v1alpha1.HeldDrift {
	return v1alpha1.HeldDrift{Drift: map[string]string{path: value}, Since: &v1alpha1.SettledIntent{Generation: since}}
}

// stored Drift that was last seen some time ago.
func stored(id string, ago time.Duration, held v1alpha1.HeldDrift) *v1alpha1.Drift {
	seen := metav1.NewTime(clock.Now().Add(-ago).Truncate(time.Second))
	return &v1alpha1.Drift{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: id}, Spec: partSpec(id, admission.Update),
		Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, LastSeen: &seen, Held: &held},
	}
}

// resolvedDrift as the cache keeps it.
func resolvedDrift(d *v1alpha1.Drift) *v1alpha1.Drift {
	d = d.DeepCopy()
	d.Status.Phase = v1alpha1.DriftResolved
	o, _ := Trim(d)
	return o.(*v1alpha1.Drift)
}

// update of a Part with a UID.
func update(uid types.UID) *admission.Request {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Part",
		"metadata": map[string]any{"name": "one", "namespace": "ns", "uid": string(uid)}}}
	return &admission.Request{Operation: admission.Update, Kind: schema.GroupVersionKind{Group: "example.org", Version: "v2", Kind: "Part"},
		Namespace: "ns", Name: "one", Object: o, OldObject: o}
}

// TestMemory covers KR-05-66: what the Drifts of the cluster hold, whichever replica refused it.
func TestMemory(t *testing.T) {
	m := NewMemory()
	if m.Held(update("u")) != nil {
		t.Error("an empty memory holds something")
	}
	old, last := stored("a", time.Hour, heldPath("spec.x", "1", 3)), stored("b", time.Minute, heldPath("spec.x", "2", 5))
	m.OnAdd(last, true)
	m.OnAdd(old, true)
	m.OnUpdate(nil, stored("c", time.Minute, heldPath("spec.y", "1", 4)))
	want := &admission.Held{Values: map[string]string{"spec.x": "2", "spec.y": "1"}, Since: v1alpha1.SettledIntent{Generation: 3}}
	if got := m.Held(update("u")); !cmp.Equal(got, want) {
		t.Errorf("the last of several values: %+v", got)
	}
	if got := m.Held(update("another")); got != nil {
		t.Errorf("an object of the same name: %+v", got)
	}
	deletion := update("u")
	deletion.Operation, deletion.Object = admission.Delete, nil
	if got := m.Held(deletion); got != nil {
		t.Errorf("another operation: %+v", got)
	}
	m.OnUpdate(nil, resolvedDrift(last))
	m.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/c", Obj: stored("c", 0, v1alpha1.HeldDrift{})})
	if got := m.Held(update("u")); got.Values["spec.x"] != "1" || len(got.Values) != 1 {
		t.Errorf("what is over is still held: %+v", got)
	}
	m.OnDelete(old)
	if m.Held(update("u")) != nil || len(m.children)+len(m.parents)+len(m.keys) > 0 {
		t.Errorf("nothing is held any more: %+v", m)
	}
}

// TestMemoryRecorded: kro is answered as if nothing had happened only while an open Drift has what is held (KR-18-06).
func TestMemoryRecorded(t *testing.T) {
	m := NewMemory()
	m.lost = func(*v1alpha1.Drift) {}
	digest := change.Digest("0123456789abcdef0123")
	d := stored(digest.ID(), time.Minute, heldPath("spec.x", "1", 3))
	d.Spec.Digest = digest.Whole()
	recorded := func() bool { return m.Known(digest.ID()).Recorded(digest.Whole()) }
	assert.False(t, recorded())
	m.Remember(&admission.Report{Drift: d.Spec, ParentRef: parent.Ref{Namespace: "ns"}, Held: *d.Status.Held})
	assert.False(t, recorded(), "this replica refused it, and its Drift may yet be lost")
	m.OnAdd(d, true)
	assert.True(t, recorded())
	assert.False(t, m.Known(digest.ID()).Recorded("0123456789abcdef4567"), "another difference of that id")
	m.OnDelete(d)
	assert.False(t, recorded(), "it was deleted before it was resolved")
}

// What this replica refused is held before its Drift is stored, and the end of an earlier occurrence does not end it (KR-05-66).
func TestMemoryOfThisReplica(t *testing.T) {
	m := NewMemory()
	before := resolvedDrift(stored("a", time.Hour, heldPath("spec.x", "1", 3)))
	m.Remember(&admission.Report{Drift: partSpec("a", admission.Update), Held: heldPath("spec.x", "1", 7)})
	m.OnUpdate(nil, before)
	if got := m.Held(update("u")); got == nil || got.Since.Generation != 7 || m.keys["a"] == nil {
		t.Fatalf("forgotten: %+v", got)
	}
	m.OnDelete(before)
	if m.keys["a"] == nil {
		t.Fatal("forgotten with the Drift of an earlier occurrence")
	}
	now := stored("a", 0, heldPath("spec.x", "1", 7))
	m.OnUpdate(nil, resolvedDrift(now)) // detected and resolved in one event
	if m.keys["a"] != nil {
		t.Error("held after its end")
	}
	m.Remember(&admission.Report{Drift: partSpec("f", admission.Update)})
	if m.keys["f"] != nil || m.Again(&admission.Report{Drift: partSpec("f", admission.Update)}) {
		t.Error("a freeze is held")
	}
}

// A creation is known by its name, or by its parent and its name in the Composition.
func TestMemoryOfCreations(t *testing.T) {
	whole := v1alpha1.HeldDrift{Drift: map[string]string{v1alpha1.HeldWhole: ""}}
	for name, child := range map[string]v1alpha1.ObjectReference{
		"Named":    {APIVersion: "example.org/v1", Kind: "Part", Namespace: "ns", Name: "one", UID: "any"},
		"Nameless": {APIVersion: "example.org/v1", Kind: "Part", Namespace: "ns", Resource: "part"},
	} {
		t.Run(name, func(t *testing.T) {
			m, spec := NewMemory(), partSpec("a", admission.Create)
			spec.Child = child
			m.Remember(&admission.Report{Drift: spec, Held: whole})
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Part", "metadata": map[string]any{
				"namespace": "ns", "annotations": map[string]any{"crossplane.io/composition-resource-name": "part"},
				"ownerReferences": []any{map[string]any{"apiVersion": "example.org/v1", "kind": "App", "name": "app", "uid": "p", "controller": true}},
			}}}
			o.SetName(child.Name)
			o.SetUID("other")
			req := &admission.Request{Operation: admission.Create, Kind: o.GroupVersionKind(), Namespace: "ns", Name: child.Name, Object: o}
			if got := m.Held(req); got == nil || !got.Whole {
				t.Errorf("not held: %+v", got)
			}
			other := *req
			other.Object = o.DeepCopy()
			other.Object.SetAnnotations(map[string]string{"crossplane.io/composition-resource-name": "other"})
			other.Name += "x"
			if child.Name == "" {
				other.Name = ""
			}
			if got := m.Held(&other); got != nil {
				t.Errorf("another one is held: %+v", got)
			}
		})
	}
}

// Nothing is evicted: past the bound, children are held as a whole (KR-05-66).
func TestMemoryBound(t *testing.T) {
	m := NewMemory()
	for i := range maxDetailed + 1 {
		spec := partSpec(fmt.Sprint(i), admission.Update)
		spec.Child.UID = types.UID(fmt.Sprint("u", i))
		m.Remember(&admission.Report{Drift: spec, Held: heldPath("spec.x", "1", 3)})
	}
	if first := m.Held(update("u0")); first == nil || first.Whole {
		t.Errorf("the first: %+v", first)
	}
	if last := m.Held(update(types.UID(fmt.Sprint("u", maxDetailed)))); last == nil || !last.Whole || last.Since.Generation != 3 {
		t.Errorf("the last: %+v", last)
	}
	d := stored("more", 0, heldPath("spec.y", "1", 9))
	d.Spec.Child.UID = types.UID(fmt.Sprint("u", maxDetailed))
	m.OnUpdate(nil, d)
	if last := m.Held(update(d.Spec.Child.UID)); len(m.keys) != maxDetailed+1 || !last.Whole || last.Since.Generation != 3 {
		t.Errorf("%d entries, and of a child with two %+v", len(m.keys), last)
	}
}

// What is held below a parent, for warnings.
func TestMemoryBelow(t *testing.T) {
	m := NewMemory()
	m.OnAdd(stored("a", time.Hour, heldPath("spec.x", "1", 3)), true)
	ref := parent.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "App"}, Namespace: "ns", Name: "app", UID: "p"}
	want := []admission.Below{{Child: "Part ns/one", Operation: admission.Update, Paths: []string{"spec.x"}, ID: "a", Since: 3, Own: true}}
	if got := m.Below(ref, true); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	for name, other := range map[string]parent.Ref{
		"UID":       {GroupVersionKind: ref.GroupVersionKind, Namespace: "ns", Name: "app", UID: "q"},
		"Namespace": {GroupVersionKind: ref.GroupVersionKind, Namespace: "other", Name: "app"},
		"Name":      {GroupVersionKind: ref.GroupVersionKind, Namespace: "ns", Name: "b"},
	} {
		if got := m.Below(other, true); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if err := m.Ready(nil); err == nil {
		t.Error("ready before the Drifts are read")
	}
	if m.begin(); m.Ready(nil) != nil {
		t.Error("not ready")
	}
}

// TestMemoryFullOfRefusals: differences that are only refused, in any number of ways, keep no reported one from being known.
func TestMemoryFullOfRefusals(t *testing.T) {
	m := NewMemory()
	refuse := func(i int) { m.Remember(&admission.Report{Drift: partSpec(fmt.Sprintf("%016x", i), admission.Update)}) }
	m.Remember(&admission.Report{Drift: partSpec("ffffffffffffffff", admission.Delete), Requester: "anna"})
	for i := range maxDetailed + 10 {
		m.Remember(&admission.Report{Drift: func() v1alpha1.DriftSpec {
			s := partSpec(fmt.Sprintf("%016x", i), admission.Update)
			s.Digest = s.ID + strings.Repeat("a", 48)
			return s
		}()})
	}
	refuse(maxDetailed + 11)
	if n := len(m.known); n != maxDetailed {
		t.Fatalf("%d differences are known, not %d", n, maxDetailed)
	}
	reported := stored("eeeeeeeeeeeeeeee", 0, heldPath("spec.x", "1", 3))
	reported.Spec.Digest = "eeeeeeeeeeeeeeee" + strings.Repeat("b", 48)
	m.OnUpdate(nil, reported)
	if !m.Known("eeeeeeeeeeeeeeee").Is() || len(m.Known("ffffffffffffffff").Requesters) != 1 {
		t.Errorf("known of what is reported: %+v, of a requested deletion: %+v", m.Known("eeeeeeeeeeeeeeee"), m.Known("ffffffffffffffff"))
	}
	all := map[string]known{"a": {stored: true}}
	if dropKnown(all) || len(all) != 1 {
		t.Error("what is reported was dropped")
	}
}

// TestMemoryOfTheSameID: two differences with one id are two (KR-13-68), until one is over. A Drift of an earlier release has no digest.
func TestMemoryOfTheSameID(t *testing.T) {
	const id = "0123456789abcdef"
	spec := func(rest string) v1alpha1.DriftSpec {
		s := partSpec(id, admission.Update)
		s.Digest = id + strings.Repeat(rest, 48)
		return s
	}
	m := NewMemory()
	harmless, harmful := spec("a"), spec("b")
	first := &admission.Report{Drift: harmless, Held: heldPath("spec.x", "1", 3), Requester: "anna"}
	second := &admission.Report{Drift: harmful, Held: heldPath("spec.y", "1", 3)}
	m.Remember(first)
	if !m.Again(first) || m.Again(second) {
		t.Fatal("one of another digest is taken for what was refused")
	}
	m.Remember(second)
	if got := m.Held(update("u")); len(got.Values) != 2 {
		t.Errorf("of two differences %v is held", got.Values)
	}
	want := admission.Known{Digests: []change.Digest{change.Digest(harmless.Digest), change.Digest(harmful.Digest)}, Requesters: []string{"anna"}}
	if diff := cmp.Diff(want, m.Known(id)); diff != "" {
		t.Errorf("known: -want, +got:\n%s", diff)
	}
	over := stored(id, time.Hour, heldPath("spec.x", "1", 3))
	over.Spec = harmless
	m.OnUpdate(nil, over)
	m.OnUpdate(nil, resolvedDrift(over))
	if got := m.Known(id); len(got.Digests) != 1 || string(got.Digests[0]) != harmful.Digest || len(got.Requesters) > 0 {
		t.Errorf("known after the end of one: %+v", got)
	}
	if got := m.Held(update("u")); len(got.Values) != 1 {
		t.Errorf("after the end of one %v is held", got.Values)
	}
	m.OnUpdate(nil, resolvedDrift(stored(id, 0, heldPath("spec.y", "1", 3))))
	if got := m.Held(update("u")); got != nil || m.Known(id).Is() {
		t.Errorf("after the end of a Drift without a digest: %+v", got)
	}
}
