package fn

import (
	"regexp"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

const enforce = `{"apiVersion":"kausality.fn.crossplane.io/v1alpha1","kind":"Input","mode":"enforce","settleGrace":"10s"}`

var approvalPattern = regexp.MustCompile(`(kausality\.io/approve-[0-9a-f]{16})=once`)

// suggested approvals of the condition, in its order.
func (s *stage) suggested() []string {
	_, _, message := s.condition()
	var out []string
	for _, m := range approvalPattern.FindAllStringSubmatch(message, -1) {
		out = append(out, m[1])
	}
	return out
}

// settled stage: a database and a thing, created and settled at generation 1.
func settledStage(t *testing.T) (*stage, desire) {
	t.Helper()
	s := newStage(t, enforce)
	want := desire{"a": database(1), "b": plain("x")}
	s.reconcile(want)
	s.wantWrites("create a", "create b")
	s.stable(want)
	s.settle(want)
	return s, want
}

// story of one composite, whose steps go on from the one before.
type story struct {
	*stage
	// want is what the pipeline wants.
	want desire
}

// TestStory: the story with the function alone.
func TestStory(t *testing.T) {
	s := &story{stage: newStage(t, enforce), want: desire{"a": database(1), "b": plain("x")}}
	s.creates()
	s.settles()
	s.followsAnIntent()
	s.holdsTheComposition()
	s.isApprovedOnce()
	s.isFrozen()
	s.removesTheThing()
	s.recreatesTheDatabase()
}

// creates the resources: the trace leads to the XR; the user is unknown without a webhook.
func (s *story) creates() {
	s.t.Helper()
	s.reconcile(s.want)
	s.wantWrites("create a", "create b")
	s.wantReason(v1alpha1.ConditionReasonAllowed)
	xrHop := v1alpha1.Hop{APIVersion: "example.org/v1", Kind: "XDatabase", Name: "db", Generation: 1, Unattributed: true}
	xrHop.Timestamp.Time = t0
	own := v1alpha1.Hop{APIVersion: "cloud.example.org/v1", Kind: "Database", Generation: 1}
	own.Timestamp.Time = t0
	if d := cmp.Diff([]v1alpha1.Hop{xrHop, own}, []v1alpha1.Hop(s.trace("a"))); d != "" {
		s.t.Errorf("trace after creation: -want +got\n%s", d)
	}
	s.stable(s.want)

	// Crossplane's own writes move the generation: the intent stays.
	s.xr.SetGeneration(3)
	s.stable(s.want)
}

// settles with one write per resource, then none.
func (s *story) settles() {
	s.t.Helper()
	s.ready()
	s.now = s.now.Add(5 * time.Second)
	s.reconcile(s.want)
	s.wantWrites()
	if ttl := s.rsp.GetMeta().GetTtl().AsDuration(); ttl != 10*time.Second {
		s.t.Errorf("ttl while only the grace period is missing: want 10s, got %s", ttl)
	}
	s.now = s.now.Add(6 * time.Second)
	s.reconcile(s.want)
	s.wantWrites("annotate a", "annotate b")
	s.stable(s.want)
	if !s.trace("a")[0].Settled || s.trace("a")[0].Generation != 1 {
		s.t.Errorf("hop of the XR: want settled at generation 1, got %+v", s.trace("a")[0])
	}
}

// followsAnIntent, whose change passes.
func (s *story) followsAnIntent() {
	s.t.Helper()
	s.intend(2)
	s.want["a"] = database(2)
	s.reconcile(s.want)
	s.wantWrites("update a")
	s.wantReason(v1alpha1.ConditionReasonAllowed)
	if got := s.trace("a"); got[0].Generation != 4 || got[1].Generation != 2 || !got[0].Timestamp.Time.Equal(s.now) {
		s.t.Errorf("trace after the intent: %s", got)
	}
	s.stable(s.want)
	s.settle(s.want)
}

// holdsTheComposition: what its change would do is held, the rest of the composite moves on.
func (s *story) holdsTheComposition() {
	s.t.Helper()
	s.xr.SetGeneration(5)
	s.want["a"], s.want["c"] = database(2, "tier", "gold"), nil
	delete(s.want, "c")
	s.want["b"]["metadata"] = map[string]any{"labels": map[string]any{"team": "shop"}}
	s.reconcile(s.want)
	s.wantWrites("hold a", "annotate b")
	s.wantReason(v1alpha1.ConditionReasonHeld)
	if tier := s.field("a", "spec", "forProvider", "tier"); tier != nil {
		s.t.Errorf("held field was applied: %v", tier)
	}
	if _, _, message := s.condition(); !strings.Contains(message, "spec.forProvider.tier") || !strings.Contains(message, `resource "a"`) {
		s.t.Errorf("condition does not name resource and field: %s", message)
	}
	if ready := s.rsp.GetDesired().GetResources()["a"].GetReady(); ready != fnv1.Ready_READY_TRUE {
		s.t.Errorf("readiness of the held resource: want READY_TRUE, got %s", ready)
	}
	s.stable(s.want)

	// A flap opens no window.
	s.flap()
	s.stable(s.want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.ready()
}

// isApprovedOnce, and passes; the same again needs another approval.
func (s *story) isApprovedOnce() {
	s.t.Helper()
	key := s.suggested()[0]
	s.annotate(key, "once")
	s.reconcile(s.want)
	s.wantWrites("update a")
	s.wantReason(v1alpha1.ConditionReasonAllowed)
	if a := s.trace("a").Own().Approval; a == nil || a.Mode != v1alpha1.ApprovalOnce || "kausality.io/approve-"+a.Digest != key {
		s.t.Errorf("approval in the hop: %+v", a)
	}
	s.stable(s.want)

	// The same again needs another approval: it is used up.
	s.update("a", "somebody", func(o map[string]any) { delete(ssa.Child(ssa.Child(o, "spec"), "forProvider"), "tier") })
	s.reconcile(s.want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.stable(s.want)
	s.update("a", "somebody", func(o map[string]any) { ssa.Child(ssa.Child(o, "spec"), "forProvider")["tier"] = "gold" })
	s.reconcile(s.want)
	s.wantReason(v1alpha1.ConditionReasonAllowed)
}

// isFrozen, and not even the own intent passes.
func (s *story) isFrozen() {
	s.t.Helper()
	s.annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"hans","message":"audit"}`)
	s.intend(3)
	s.want["a"] = database(3, "tier", "gold")
	s.reconcile(s.want)
	s.wantWrites("hold a")
	s.wantReason(v1alpha1.ConditionReasonFrozen)
	s.stable(s.want)
	s.annotate(v1alpha1.AnnotationKeyFreeze, "")
	s.reconcile(s.want)
	s.wantWrites("update a")
	s.wantReason(v1alpha1.ConditionReasonAllowed)
	s.stable(s.want)
	s.settle(s.want)
}

// removesTheThing, which is held until approved.
func (s *story) removesTheThing() {
	s.t.Helper()
	delete(s.want, "b")
	s.reconcile(s.want)
	s.wantWrites("hold b")
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.stable(s.want)
	s.annotate(s.suggested()[0], "once")
	s.reconcile(s.want)
	s.wantWrites("delete b")
	s.stable(s.want)
}

// recreatesTheDatabase after a user deleted it, which is drift.
func (s *story) recreatesTheDatabase() {
	s.t.Helper()
	delete(s.live, "a")
	s.reconcile(s.want)
	s.wantWrites()
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.stable(s.want)
	s.annotate(s.suggested()[0], "once")
	s.reconcile(s.want)
	s.wantWrites("create a")
	s.reconcile(s.want)
	s.wantWrites("annotate a") // nothing else exists that could store the settled intent
	s.stable(s.want)
}

// flap: the XR is not ready for a moment.
func (s *stage) flap() {
	list, _ := ssa.Child(s.xr.Object, "status")["conditions"].([]any)
	for _, e := range list {
		if c := e.(map[string]any); ssa.Text(c, "type") == "Ready" {
			c["status"] = "False"
		}
	}
}
