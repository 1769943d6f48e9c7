package fn

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

func (s *stage) held(name string) *v1alpha1.Held {
	s.t.Helper()
	value := heldOf(s.live[name])
	if value == "" {
		return nil
	}
	out := &v1alpha1.Held{}
	if err := json.Unmarshal([]byte(value), out); err != nil {
		s.t.Fatalf("held annotation of %s: %v", name, err)
	}
	return out
}

// What is held of a resource is stored on it as long as it is held, changes with the
// difference and with nothing else, and is removed with it (KR-09-05).
func TestHeldAnnotation(t *testing.T) {
	s, want := settledStage(t)
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	key := s.suggested()[0]
	id := key[len(v1alpha1.AnnotationKeyApprovePrefix):]
	expected := &v1alpha1.Held{
		Reason: "Drift", Operation: "UPDATE", Paths: []string{"spec.value"}, ID: id,
		Difference: []v1alpha1.FieldDifference{{Path: "spec.value", Verb: "Mutate", Old: `"x"`, New: `"y"`}},
		Approve:    "kubectl annotate -n shop xdatabase.example.org db " + key + "=once",
		HeldDrift: v1alpha1.HeldDrift{
			Drift: map[string]string{"spec.value": "2bc983a5942276eb"},
			Since: &v1alpha1.SettledIntent{Generation: 1, At: metav1.NewTime(t0)},
		},
	}
	if h := s.held("b"); h != nil && len(h.Digest) == 64 && change.Digest(h.Digest).ID() == id {
		expected.Digest = h.Digest
	}
	if d := cmp.Diff(expected, s.held("b")); d != "" {
		t.Errorf("held: -want +got\n%s", d)
	}
	if h := s.held("a"); h != nil {
		t.Errorf("nothing is held of a: %+v", h)
	}
	s.stable(want)

	// Another difference under the same paths is another id.
	want["b"] = plain("z")
	s.reconcile(want)
	s.wantWrites("hold b")
	if h := s.held("b"); h.ID == id {
		t.Errorf("another difference has the same id: %+v", h)
	}

	// Withdrawn.
	want["b"] = plain("x")
	s.reconcile(want)
	s.wantWrites("release b")
	s.stable(want)

	// Approved.
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	s.annotate(key, "once")
	s.reconcile(want)
	s.wantWrites("update b")
	if h := s.held("b"); h != nil {
		t.Errorf("still held after the approval: %+v", h)
	}
	s.stable(want)
}

// While frozen no approval helps, so none is suggested; with an intent the same
// change passes afterwards.
func TestHeldWhileFrozen(t *testing.T) {
	s, want := settledStage(t)
	s.annotate(v1alpha1.AnnotationKeyFreeze, "true")
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	want["a"] = database(2)
	s.reconcile(want)
	h := s.held("a")
	if h == nil || h.Reason != "Frozen" || h.Approve != "" || !cmp.Equal(h.Paths, []string{"spec.forProvider.size"}) {
		t.Errorf("held: %+v", h)
	}
	s.annotate(v1alpha1.AnnotationKeyFreeze, "")
	s.reconcile(want)
	if h := s.held("a"); h != nil {
		t.Errorf("still held: %+v", h)
	}
}

// The paths are bounded.
func TestHeldPathsAreBounded(t *testing.T) {
	s, want := settledStage(t)
	spec := map[string]any{}
	for i := range 3 * v1alpha1.MaxHeldPaths {
		spec[fmt.Sprintf("field%02d", i)] = "y"
	}
	want["b"]["spec"] = spec
	s.reconcile(want)
	if h := s.held("b"); h == nil || len(h.Paths) != v1alpha1.MaxHeldPaths {
		t.Errorf("held: %+v", h)
	}
}

// A Composition cannot set the annotation where nothing is held (KR-02-11).
func TestHeldIsNotTheCompositions(t *testing.T) {
	s, want := settledStage(t)
	want["b"]["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyHeld: `{"reason":"Drift"}`}}
	s.reconcile(want)
	if h := s.held("b"); h != nil {
		t.Errorf("held: %+v", h)
	}
}

// A creation that is held has no resource to carry it: the first resource that
// exists lists it, for as long as it is held, and later steps find the list in
// the context of the pipeline (KR-09-05).
func TestHeldCreations(t *testing.T) {
	s := newStage(t, enforce)
	want := desire{"a": database(1), "c": plain("x")}
	s.reconcile(want)
	s.settle(want)
	creations := func(name string) (out []v1alpha1.HeldCreation) {
		value := s.live[name].GetAnnotations()[v1alpha1.AnnotationKeyHeldCreations]
		if value != "" && json.Unmarshal([]byte(value), &out) != nil {
			t.Fatalf("cannot read %s", value)
		}
		return out
	}

	named := plain("y")
	named["metadata"] = map[string]any{"name": "thing-b"}
	want["b"], want["d"] = named, database(4)
	s.reconcile(want)
	s.wantWrites("annotate a")
	commands := s.suggested()
	command := func(key string) string { return "kubectl annotate -n shop xdatabase.example.org db " + key + "=once" }
	drift := v1alpha1.HeldDrift{Drift: map[string]string{"*": ""}, Since: &v1alpha1.SettledIntent{Generation: 1, At: metav1.NewTime(t0)}}
	wanted := []v1alpha1.HeldCreation{
		{Resource: "b", APIVersion: "app.example.org/v1", Kind: "Thing", Namespace: "shop", Name: "thing-b", Reason: "Drift",
			ID: strings.TrimPrefix(commands[0], v1alpha1.AnnotationKeyApprovePrefix), Approve: command(commands[0]), HeldDrift: drift},
		{Resource: "d", APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "shop", Reason: "Drift",
			ID: strings.TrimPrefix(commands[1], v1alpha1.AnnotationKeyApprovePrefix), Approve: command(commands[1]), HeldDrift: drift},
	}
	for i, c := range creations("a") {
		if i < len(wanted) && len(c.Digest) == 64 && change.Digest(c.Digest).ID() == wanted[i].ID {
			wanted[i].Digest = c.Digest
		}
	}
	if d := cmp.Diff(wanted, creations("a")); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if d := cmp.Diff(wanted, earlier(&fnv1.RunFunctionRequest{Context: s.rsp.GetContext()}).creations); d != "" {
		t.Errorf("in the context: -want +got\n%s", d)
	}
	if got := creations("c"); got != nil {
		t.Errorf("one resource lists them, and c does too: %v", got)
	}
	s.stable(want)

	s.annotate(commands[0], "once")
	s.reconcile(want)
	if got := creations("a"); len(got) != 1 || got[0].Resource != "d" {
		t.Errorf("after the approval of b: %v", got)
	}
	delete(want, "d")
	s.reconcile(want)
	if got := creations("a"); got != nil {
		t.Errorf("nothing is held any more: %v", got)
	}
	s.stable(want)
}

// The settled intent is stored on a resource with its desired state, and stays while the next intent has not settled. The message of an
// earlier release is read as well (KR-09-10).
func TestSettledIntent(t *testing.T) {
	s := newStage(t, enforce)
	want := desire{"a": database(1), "b": plain("x")}
	s.reconcile(want)
	s.settle(want)
	stored := func() string { return s.live["a"].GetAnnotations()[v1alpha1.AnnotationKeySettledIntent] }
	if got := stored(); !strings.Contains(got, `"generation":1,`) || !strings.Contains(got, `"state":"`) {
		t.Errorf("after the first intent: %s", got)
	}

	s.now = s.now.Add(time.Minute)
	s.intend(2) // which changes nothing
	at := s.now
	s.reconcile(want)
	s.settle(want)
	second := stored()
	if want := `{"generation":2,"at":"` + at.Format(time.RFC3339) + `","state":"`; !strings.HasPrefix(second, want) {
		t.Errorf("want %s…, got %s", want, second)
	}

	message := func(o *unstructured.Unstructured) { // another than the function wrote
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, e := range list {
			e.(map[string]any)["message"] = ""
		}
		_ = unstructured.SetNestedSlice(o.Object, list, "status", "conditions")
	}
	message(s.xr)
	want["a"] = database(3)
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld) // it knows without the message that generation 2 settled
	want["a"] = database(1)
	s.reconcile(want)

	s.update("a", "kubectl", func(o map[string]any) { // as an earlier release leaves it
		delete(ssa.Child(ssa.Child(o, "metadata"), "annotations"), v1alpha1.AnnotationKeySettledIntent)
	})
	want["a"] = database(3)
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld) // the message shows it

	s.now = s.now.Add(time.Minute)
	s.intend(3)
	want["a"] = database(4)
	s.reconcile(want)
	s.wantWrites("update a")
	if got := stored(); got != second {
		t.Errorf("before the next intent has settled: want %s, got %s", second, got)
	}
}
