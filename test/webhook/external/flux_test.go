package external

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// flux plays the tofu-controller for one Terraform, after its shouldPlan,
// shouldApply and reconcile.
type flux struct {
	*actor
	// revision of the source, and path that was applied last; drifted: the
	// external resources were changed. Under mu.
	revision, path string
	drifted        bool
}

func newFlux(t *testing.T, name string) *flux {
	name = namespace(t, name)
	f := &flux{actor: newActor(t, terraforms, name, name, "system:serviceaccount:flux-system:tofu-controller"), revision: "main/1111111111aa"}
	f.next = f.step
	_, err := f.user.Create(t.Context(), object("infra.contrib.fluxcd.io/v1alpha2", "Terraform", name, name, map[string]any{
		"approvePlan": "auto", "interval": "10m", "path": "./one", "sourceRef": map[string]any{"kind": "GitRepository", "name": "infra"},
	}), metav1.CreateOptions{FieldManager: "kustomize-controller"})
	require.NoError(t, err)
	f.start()
	return f
}

// push a revision to the source.
func (f *flux) push(revision string) {
	f.mu.Lock()
	f.revision = revision
	f.mu.Unlock()
	f.poke()
}

func plan(revision string) string {
	branch, commit, _ := strings.Cut(revision, "/")
	return "plan-" + branch + "-" + commit[:10]
}

func (f *flux) step(o *unstructured.Unstructured) *step {
	f.mu.Lock()
	revision, appliedPath, drifted := f.revision, f.path, f.drifted
	f.mu.Unlock()
	path, _, _ := unstructured.NestedString(o.Object, "spec", "path")
	approve, _, _ := unstructured.NestedString(o.Object, "spec", "approvePlan")
	pending, _, _ := unstructured.NestedString(o.Object, "status", "plan", "pending")
	applied, _, _ := unstructured.NestedString(o.Object, "status", "lastAppliedRevision")
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	differs := revision != applied || path != appliedPath || drifted
	switch {
	case pending == "" && differs && revision == applied && approve != "auto": // detectDrift
		if observed == o.GetGeneration() && readyReason(o) == "DriftDetected" {
			return nil
		}
		s := f.status(o, map[string]any{}, "False", nil)
		s.patch["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["reason"] = "DriftDetected"
		return s
	case pending != "" && pending != plan(revision), pending == "" && differs:
		return f.status(o, map[string]any{"lastPlannedRevision": revision, "plan": map[string]any{"pending": plan(revision)}}, "Unknown", nil)
	case pending != "" && approve != "" && (approve == "auto" || strings.HasPrefix(pending, approve)):
		return f.status(o, map[string]any{"lastAppliedRevision": revision, "plan": map[string]any{"lastApplied": pending, "pending": nil}}, "True", func() {
			f.mu.Lock()
			f.path, f.drifted = path, false
			f.mu.Unlock()
			f.did(pending + " " + path)
		})
	case observed != o.GetGeneration():
		ready := "True"
		if pending != "" {
			ready = "Unknown"
		}
		return f.status(o, map[string]any{}, ready, nil)
	}
	return nil
}

func readyReason(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		if c, _ := e.(map[string]any); c["type"] == "Ready" {
			reason, _ := c["reason"].(string)
			return reason
		}
	}
	return ""
}

func (f *flux) status(o *unstructured.Unstructured, status map[string]any, ready string, done func()) *step {
	at := time.Now().UTC().Format(time.RFC3339)
	list := []any{map[string]any{"type": "Ready", "status": ready, "reason": "Any", "message": "", "lastTransitionTime": at}}
	if done != nil {
		list = append(list, map[string]any{"type": "Apply", "status": "True", "reason": "TerraformAppliedSucceed", "message": "", "lastTransitionTime": at})
	}
	status["conditions"], status["observedGeneration"] = list, o.GetGeneration()
	return &step{patch: map[string]any{"status": status}, subresource: "status", done: done}
}

func approvePlan(want any) func(*unstructured.Unstructured) error {
	return holds(want, "spec", "approvePlan")
}

// TestFluxApproval: from installation on, no unrequested plan is applied: a new
// commit waits for its approval, which opens for exactly that plan, once (KR-08-42).
func TestFluxApproval(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "flux-approval")
	installed := f.await("the gate to be installed", both(gate(v1alpha1.GateClosed, "Installed"), approvePlan("")))
	if got := installed.GetAnnotations()[v1alpha1.AnnotationKeyExternalAuthor]; got != `"auto"` {
		t.Errorf("its author's value is remembered as %s", got)
	}
	first := []string{"plan-main-1111111111 ./one"}
	if got := f.all(); !slices.Equal(got, first) {
		t.Fatalf("before there was a gate: %v", got)
	}

	f.push("main/2222222222bb")
	id := f.drift()
	if got := f.all(); !slices.Equal(got, first) {
		t.Fatalf("applied while the gate is closed: %v", got)
	}
	f.patch(`{"metadata":{"annotations":{"kausality.io/approve-` + id + `":"once"}}}`)
	f.await("the plan to be applied and the gate closed", both(gate(v1alpha1.GateClosed, "Confirmed"), approvePlan(""), without("kausality.io/approve-"+id)))
	if got := f.all(); !slices.Equal(got, append(first, "plan-main-2222222222 ./one")) {
		t.Fatalf("the approval opened for another plan: %v", got)
	}
	f.awaitResolved(id)

	f.push("main/3333333333cc")
	f.drift(id)
	if got := f.all(); len(got) != 2 {
		t.Errorf("the approval was used twice: %v", got)
	}
}

// TestFluxChange: a user's change of the object opens for what it plans; a commit
// that waits is not applied with it.
func TestFluxChange(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "flux-change")
	f.await("the gate to be installed", gate(v1alpha1.GateClosed, "Installed"))
	f.patch(`{"spec":{"path":"./two"}}`)
	f.await("hans's change to be applied and the gate closed", both(gate(v1alpha1.GateClosed, "Confirmed"), approvePlan("")))
	if got := f.all(); !slices.Equal(got, []string{"plan-main-1111111111 ./one", "plan-main-1111111111 ./two"}) {
		t.Fatalf("applied: %v", got)
	}

	f.push("main/2222222222bb")
	id := f.drift()
	f.patch(`{"spec":{"path":"./three"}}`)
	f.await("the controller to have seen the change", func(o *unstructured.Unstructured) error {
		return holds(o.GetGeneration(), "status", "observedGeneration")(o)
	})
	if got := f.all(); len(got) != 2 {
		t.Fatalf("the commit that waited was applied with it: %v", got)
	}
	f.patch(`{"metadata":{"annotations":{"kausality.io/approve-` + id + `":"once"}}}`)
	f.await("the plan to be applied and the gate closed", both(approvePlan(""), holds("plan-main-2222222222", "status", "plan", "lastApplied")))
	if got := f.all(); !slices.Equal(got[2:], []string{"plan-main-2222222222 ./three"}) {
		t.Errorf("applied: %v", got)
	}
}

// TestFluxDrift: external changes are reported and not reverted, until the reversal
// is approved.
func TestFluxDrift(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "flux-drift")
	f.await("the gate to be installed", gate(v1alpha1.GateClosed, "Installed"))
	f.patch(`{"spec":{"interval":"20m"}}`) // hans's change, which takes nothing outside
	f.await("hans's change to be seen", gate(v1alpha1.GateClosed, "NothingToDo"))
	f.mu.Lock()
	f.drifted = true
	f.mu.Unlock()
	f.poke()
	id := f.drift()
	if got := f.all(); len(got) != 1 {
		t.Fatalf("reverted: %v", got)
	}
	f.patch(`{"metadata":{"annotations":{"kausality.io/approve-` + id + `":"once"}}}`)
	f.await("the drift to be reverted and the gate closed", both(gate(v1alpha1.GateClosed, "Confirmed"), approvePlan("")))
	if got := f.all(); len(got) != 2 {
		t.Errorf("applied: %v", got)
	}
	f.awaitResolved(id)
}

// TestFluxAuthor: GitOps writes the author's value repeatedly, while a commit
// waits: the same write is masked, and nothing is applied. Log mode restores the
// value.
func TestFluxAuthor(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "flux-author")
	f.await("the gate to be installed", both(gate(v1alpha1.GateClosed, "Installed"), approvePlan("")))
	f.push("main/2222222222bb")
	f.drift()
	for range 20 {
		o, err := f.user.Patch(t.Context(), f.name, types.MergePatchType, []byte(`{"spec":{"approvePlan":"auto"}}`),
			metav1.PatchOptions{FieldManager: "kustomize-controller"})
		require.NoError(t, err)
		if err := both(approvePlan(""), holds("plan-main-2222222222", "status", "plan", "pending"))(o); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.all(); len(got) != 1 {
		t.Fatalf("applied: %v", got)
	}
	f.patch(`{"metadata":{"annotations":{"kausality.io/mode":"log"}}}`)
	f.await("its author's value to be back, and the plan applied", both(approvePlan("auto"), without(v1alpha1.AnnotationKeyExternalAuthor,
		v1alpha1.AnnotationKeyGate), holds("plan-main-2222222222", "status", "plan", "lastApplied")))
	f.patch(`{"metadata":{"annotations":{"kausality.io/mode":null}},"spec":{"approvePlan":""}}`)
	f.await("an author who approves plans manually to keep the value",
		both(approvePlan(""), without(v1alpha1.AnnotationKeyExternalAuthor, v1alpha1.AnnotationKeyGate)))
}

// TestFluxOtherAuthor: an author who disables automatic applies keeps that value,
// and one who enables them again is masked again.
func TestFluxOtherAuthor(t *testing.T) {
	t.Parallel()
	f := newFlux(t, "flux-other-author")
	f.await("the gate to be installed", gate(v1alpha1.GateClosed, "Installed"))
	f.patch(`{"spec":{"approvePlan":"disable"}}`)
	f.await("an author who disables applies to keep the value", both(approvePlan("disable"), without(v1alpha1.AnnotationKeyExternalAuthor,
		v1alpha1.AnnotationKeyGate)))
	f.patch(`{"spec":{"approvePlan":"auto"}}`)
	f.await("the gate to be installed again", both(gate(v1alpha1.GateClosed, "Installed"), approvePlan("")))
}
