package fn

import (
	"regexp"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/policies"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

func (s *stage) policies(name string) any {
	return s.field(name, "spec", "managementPolicies")
}

func (s *stage) wantPolicies(want ...any) {
	s.t.Helper()
	if d := cmp.Diff(want, s.policies("a")); d != "" {
		s.t.Errorf("managementPolicies: -want +got\n%s", d)
	}
}

// unsynced: the provider is at work.
func (s *stage) unsynced(name string) {
	s.setStatus(name, map[string]any{"conditions": []any{map[string]any{"type": "Synced", "status": "False"}}})
}

// confirm: the provider is done, and reports what it made of it.
func (s *stage) confirm(size int64) {
	s.ready()
	o := s.live["a"].DeepCopy()
	ssa.Child(o.Object, "status")["atProvider"] = map[string]any{"size": size}
	s.live["a"] = o
}

// created composes want until the external resource of "a" is confirmed as created, which closes its gate.
func (s *stage) created(want desire) {
	s.t.Helper()
	s.reconcile(want)
	s.confirm(1)
	s.reconcile(want)
}

// The gate without webhook and gate controller: the change and the opening in
// one write, the closing in a later one (KR-09-11).
func TestManagedGate(t *testing.T) {
	for name, author := range map[string]any{"Explicit": []any{"*"}, "Defaulted": nil} {
		t.Run(name, func(t *testing.T) { managedGate(t, author) })
	}
}

func managedGate(t *testing.T, author any) {
	s := newStage(t, managed)
	db := func(size int64) map[string]any {
		o := database(size)
		if author == nil {
			delete(ssa.Child(o, "spec"), "managementPolicies")
		}
		return o
	}
	want := desire{"a": db(1)}

	// Creation is open for all but Delete.
	s.reconcile(want)
	s.wantWrites("create a")
	if author == nil { // no field, no mask: the CRD's default is not known yet
		s.update("a", "default", func(o map[string]any) { ssa.Child(o, "spec")["managementPolicies"] = []any{"*"} })
	} else {
		s.wantPolicies("Observe", "Create", "Update", "LateInitialize")
	}
	s.stable(want)

	// Confirmed: closed.
	s.confirm(1)
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantPolicies("Observe")
	s.confirm(1)
	s.settle(want)
	s.wantPolicies("Observe")

	// An intent opens for Update in its own write, and until confirmed.
	s.intend(2)
	want["a"] = db(2)
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantPolicies("Observe", "Update")
	s.unsynced("a")
	s.stable(want)
	s.ready() // Synced, but the provider still reports the old size
	o := s.live["a"].DeepCopy()
	ssa.Child(o.Object, "status")["atProvider"] = map[string]any{"size": int64(1)}
	s.live["a"] = o
	s.stable(want)
	s.confirm(2)
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantPolicies("Observe")
	s.confirm(2)
	s.settle(want)

	// Drift is held, and opens nothing.
	want["a"] = db(3)
	s.reconcile(want)
	s.wantWrites("hold a")
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.wantPolicies("Observe")
	s.stable(want)
	want["a"] = db(2)

	// The deletion: held, approved, opened, done.
	delete(want, "a")
	s.reconcile(want)
	s.wantWrites("hold a")
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.stable(want)
	s.annotate(s.suggested()[0], "once")
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantPolicies("Observe", "Delete")
	s.reconcile(want)
	s.wantWrites("delete a")
}

// A gate whose opening is never confirmed closes at the deadline.
func TestManagedGateDeadline(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1)}
	s.reconcile(want)
	s.unsynced("a")
	s.now = s.now.Add(59 * time.Minute)
	s.reconcile(want)
	s.wantWrites()
	s.now = s.now.Add(2 * time.Minute)
	s.reconcile(want)
	s.wantPolicies("Observe")
	g := mask.ParseGate(s.live["a"].GetAnnotations())
	if g.State != v1alpha1.GateClosed || g.Reason != "ExpiredUnconfirmed" {
		t.Errorf("gate: %+v", g)
	}
	s.stable(want)
}

// Switching to log mode gives the author's value back.
func TestManagedGateOff(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1)}
	s.created(want)
	s.wantPolicies("Observe")
	s.input = `{"gate":{"managementPolicies":"Managed"}}`
	s.reconcile(want)
	s.wantPolicies("*")
	if _, ok := s.live["a"].GetAnnotations()[v1alpha1.AnnotationKeyGate]; ok {
		t.Error("the gate is still there")
	}
	s.settle(want)
}

// An author who gave nothing but Observe is left alone.
func TestManagedGateObserveOnly(t *testing.T) {
	s := newStage(t, managed)
	db := database(1)
	ssa.Child(db, "spec")["managementPolicies"] = []any{"Observe"}
	want := desire{"a": db}
	s.reconcile(want)
	s.wantPolicies("Observe")
	s.confirm(1)
	s.settle(want)
	if _, ok := s.live["a"].GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies]; ok {
		t.Error("nothing is masked, nothing needs remembering")
	}
}

// Where a gate masks as well, the mask that it has left is emitted as it is: it
// may be one that the function would not make.
func TestMaskOfAGate(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1)}
	s.reconcile(want)
	s.update("a", "kausality-gate", func(o map[string]any) {
		ssa.Child(o, "spec")["managementPolicies"] = []any{"Observe", "LateInitialize"} // --gate-closed=Observe,LateInitialize
		ssa.Child(ssa.Child(o, "metadata"), "annotations")[v1alpha1.AnnotationKeyGate] = `{"state":"closed","generation":2,` +
			`"at":"2026-01-01T12:00:00Z","reason":"Confirmed"}`
	})
	s.confirm(1)
	s.reconcile(want)
	s.wantPolicies("Observe", "LateInitialize")
	s.settle(want)
	s.wantPolicies("Observe", "LateInitialize")
}

// TestManagedGateOutside covers KR-09-26: a change of the external resource behind the function's own gate shows in the
// condition, which reports nothing as held, and in an event; an approval reverts it. It is never silent, and stays below
// what is held.
func TestManagedGateOutside(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1), "b": plain("x")}
	s.created(want)
	s.confirm(1)
	s.settle(want)
	shown := func() string {
		_, _, message := s.condition()
		return message
	}
	if strings.Contains(shown(), "ExternalDrift") {
		t.Errorf("nothing differs: %s", shown())
	}

	s.confirm(7)
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonAllowed)
	s.wantPolicies("Observe")
	text := "spec.forProvider.size is 7, should be 1. To approve reverting it: kubectl annotate"
	if !strings.Contains(shown(), text) {
		t.Errorf("condition: %s", shown())
	}
	if n := len(s.rsp.GetResults()); n != 1 || s.rsp.GetResults()[0].GetReason() != "ExternalDrift" {
		t.Errorf("results: %v", s.rsp.GetResults())
	}
	s.stable(want)

	want["b"] = plain("y")
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
	if held := strings.Index(shown(), `resource "b"`); held < 0 || held > strings.Index(shown(), text) {
		t.Errorf("beside what is held: %s", shown())
	}
	want["b"] = plain("x")
	s.reconcile(want)

	command := regexp.MustCompile(`kausality\.io/approve-[0-9a-f]{16}`).FindString(shown())
	s.annotate(command, "once")
	s.reconcile(want)
	s.wantPolicies("Observe", "Update")
	s.confirm(1)
	s.reconcile(want)
	s.wantPolicies("Observe")
	if strings.Contains(shown(), "ExternalDrift") {
		t.Errorf("after it was reverted: %s", shown())
	}
}

// TestManagedGateOutsideGuarded: where the webhook guards the resource, the gate reports it.
func TestManagedGateOutsideGuarded(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1)}
	s.created(want)
	s.update("a", "kausality", func(o map[string]any) {
		ssa.Child(ssa.Child(o, "metadata"), "annotations")[v1alpha1.AnnotationKeyUpdaters] = "13c7u"
	})
	s.confirm(7)
	s.reconcile(want)
	if _, _, message := s.condition(); strings.Contains(message, "ExternalDrift") {
		t.Errorf("condition: %s", message)
	}
}

// TestManagedGateInput covers KR-09-27: deadline, closed form and ignored paths come from the Input where no policy covers the
// resource, and from the policy where one does, whatever it leaves out.
func TestManagedGateInput(t *testing.T) {
	const gate = `"gate":{"managementPolicies":"Managed","deadline":"5m","closed":["Observe","LateInitialize"],"ignorePaths":["spec.forProvider.size"]}`
	const input = `{"mode":"enforce","settleGrace":"10s",` + gate + `}`
	s := newStage(t, input)
	want := desire{"a": database(1)}
	s.reconcile(want)
	s.unsynced("a")
	s.now = s.now.Add(4 * time.Minute)
	s.reconcile(want)
	s.wantWrites()
	s.now = s.now.Add(2 * time.Minute)
	s.reconcile(want)
	s.wantPolicies("Observe", "LateInitialize")
	s.confirm(7)
	s.reconcile(want)
	if _, _, message := s.condition(); strings.Contains(message, "ExternalDrift") {
		t.Errorf("the path is ignored: %s", message)
	}
	s.input = managed
	s.reconcile(want)
	if _, _, message := s.condition(); !strings.Contains(message, "ExternalDrift") {
		t.Errorf("and is no longer: %s", message)
	}
}

// TestManagedGatePolicy covers KR-09-27: under a policy, the gate is as that and the defaults have it, not the Input.
func TestManagedGatePolicy(t *testing.T) {
	s := newStage(t, `{"mode":"enforce","settleGrace":"10s","policySelector":{},"gate":{"managementPolicies":"Managed","deadline":"5m",`+
		`"closed":["Observe","LateInitialize"],"ignorePaths":["spec.forProvider.size"]}}`)
	databases := map[string]any{"apiGroups": []any{"cloud.example.org"}, "resources": []any{"databases"}}
	s.installed(map[string]*fnv1.Resources{policies.RequirementKausalities: resources(map[string]any{"apiVersion": "kausality.io/v1alpha1",
		"kind": "Kausality", "metadata": map[string]any{"name": "all"}, "spec": map[string]any{"mode": "enforce", "resources": []any{databases}}})})
	want := desire{"a": database(1)}
	s.reconcile(want)
	s.unsynced("a")
	s.now = s.now.Add(6 * time.Minute)
	s.reconcile(want)
	s.wantWrites()
	s.now = s.now.Add(time.Hour)
	s.reconcile(want)
	s.wantPolicies("Observe")
	s.confirm(7)
	s.reconcile(want)
	if _, _, message := s.condition(); !strings.Contains(message, "ExternalDrift") {
		t.Errorf("the policy ignores nothing: %s", message)
	}
}

// TestManagedGatePaused: a change that is accepted while the managed resource is paused waits until its provider has observed it again, since
// something else may have changed meanwhile; then the gate opens for it (KR-08-72).
func TestManagedGatePaused(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1)}
	s.created(want)
	s.confirm(1)
	s.settle(want)

	pause := func(value any) {
		s.update("a", "kubectl-annotate", func(o map[string]any) {
			ssa.Child(ssa.Child(o, "metadata"), "annotations")["crossplane.io/paused"] = value
		})
	}
	pause("true")
	s.unsynced("a")
	s.intend(2)
	want["a"] = database(2)
	s.reconcile(want)
	s.wantPolicies("Observe")
	if got := s.field("a", "spec", "forProvider", "size"); got != int64(2) {
		t.Errorf("the change is stored: %v", got)
	}
	s.stable(want)
	pause("false")
	s.stable(want)
	s.wantPolicies("Observe") // its provider has not reported anything yet
	s.confirm(1)
	s.reconcile(want)
	s.wantPolicies("Observe", "Update")
	s.confirm(2)
	s.reconcile(want)
	s.wantPolicies("Observe")
}
