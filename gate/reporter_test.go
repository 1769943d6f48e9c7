package gate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

func objectWith(annotations map[string]string) *states.Object {
	return &states.Object{State: &parent.State{ResourceVersion: "30", Annotations: annotations}}
}

// TestPatch: policies, the author's value and the gate annotation are one write, under
// the precondition that the MR has not changed (KR-08-23).
func TestPatch(t *testing.T) {
	o := objectWith(nil)
	opened := patch(o, gating.Decision{Action: gating.ActionOpen, Author: []string{"*"}, Policies: []string{"Observe", "Update"},
		Gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Generation: 4, At: metav1.Now()}})
	if opened.ResourceVersion != "30" || len(opened.ManagementPolicies) != 2 || *opened.Annotations[v1alpha1.AnnotationKeyManagementPolicies] != `["*"]` ||
		opened.Annotations[v1alpha1.AnnotationKeyGate] == nil || opened.Annotations[v1alpha1.AnnotationKeyReconcileRequestedAt] == nil {
		t.Errorf("opening: %+v", opened)
	}
	at := metav1.Unix(1, 0)
	gate := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbCreate}, At: at}
	isOpen := objectWith(map[string]string{v1alpha1.AnnotationKeyGate: mask.FormatGate(gate)})
	isOpen.ManagementPolicies = []string{"Observe", "Create"}
	named, again, wider := gate, gate, gate
	named.External = &v1alpha1.GateExternal{Name: "db-1"}
	again.At, wider.Verbs = metav1.Unix(2, 0), []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate}
	for reason, tc := range map[string]struct {
		gate     v1alpha1.Gate
		policies []string
		requests bool
	}{
		"the name of what it creates needs no reconcile (KR-04-18)": {gate: named, policies: isOpen.ManagementPolicies},
		"another opening does":      {gate: again, policies: isOpen.ManagementPolicies, requests: true},
		"and so do other verbs":     {gate: wider, policies: isOpen.ManagementPolicies, requests: true},
		"and policies that it gets": {gate: named, policies: []string{"Observe", "Create", "Update"}, requests: true},
	} {
		p := patch(isOpen, gating.Decision{Action: gating.ActionOpen, Author: []string{"*"}, Policies: tc.policies, Gate: tc.gate})
		if _, requests := p.Annotations[v1alpha1.AnnotationKeyReconcileRequestedAt]; requests != tc.requests {
			t.Errorf("%s: %+v", reason, p.Annotations)
		}
	}
	closed := patch(o, gating.Decision{Action: gating.ActionClose, Author: []string{"*"}, Gate: v1alpha1.Gate{State: v1alpha1.GateClosed}})
	if _, asks := closed.Annotations[v1alpha1.AnnotationKeyReconcileRequestedAt]; asks {
		t.Error("a closing requests no reconcile")
	}
	restored := patch(o, gating.Decision{Action: gating.ActionRestore, Policies: []string{"*"}})
	for _, key := range []string{v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate} {
		if v, has := restored.Annotations[key]; !has || v != nil {
			t.Errorf("restoring leaves %s", key)
		}
	}
}

// TestSameDecisions: only users' annotations and claims are a reason to reconcile all
// MRs of a holder.
func TestSameDecisions(t *testing.T) {
	approve := map[string]string{v1alpha1.AnnotationKeyApprovals: "[]"}
	cases := map[string]struct {
		reason string
		a, b   map[string]string
		want   bool
	}{
		"Same": {reason: "equal", a: approve, b: map[string]string{v1alpha1.AnnotationKeyApprovals: "[]"}, want: true},
		"Trace": {reason: "the trace is not a user's", a: approve, b: map[string]string{v1alpha1.AnnotationKeyApprovals: "[]",
			v1alpha1.AnnotationKeyTrace: "[]"}, want: true},
		"Added":     {reason: "an approval", b: approve},
		"Removed":   {reason: "an approval", a: approve},
		"Replaced":  {reason: "by another annotation", a: approve, b: map[string]string{v1alpha1.AnnotationKeyFreeze: "true"}},
		"Claims":    {reason: "a claim to be finished", a: approve, b: map[string]string{v1alpha1.AnnotationKeyApprovals: "[]", v1alpha1.AnnotationKeyClaims: "[]"}},
		"OtherMode": {reason: "another value", a: map[string]string{v1alpha1.AnnotationKeyMode: "log"}, b: map[string]string{v1alpha1.AnnotationKeyMode: "enforce"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := sameDecisions(objectWith(tc.a), objectWith(tc.b)); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// TestResolution: why an external drift is resolved (KR-10-05).
func TestResolution(t *testing.T) {
	have := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: "id1"}}
	differs := objectWith(nil)
	differs.External.Difference = []change.Change{{Path: "spec.forProvider.size"}}
	shown := objectWith(map[string]string{v1alpha1.AnnotationKeyGate: `{"state":"closed","at":null,"digest":"id1"}`})
	opening := gating.Decision{Action: gating.ActionOpen, Gate: v1alpha1.Gate{Digest: "id1"}}
	for want, got := range map[string]string{
		"it was approved":                          resolution(have, differs, opening),
		"the external resource is as it should be": resolution(have, objectWith(nil), gating.Decision{}),
		"the difference is another one now":        resolution(have, differs, gating.Decision{}),
	} {
		if got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	if got := resolution(have, shown, gating.Decision{}); got != "it was approved" {
		t.Errorf("the gate shows it: %q", got)
	}
}

// TestApprovalOf covers KR-14-63: who approved is in the decision that opens the gate, else in the claims of a holder.
func TestApprovalOf(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	have := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: "id1"}, Status: v1alpha1.DriftStatus{Since: &since}}
	holders := []identity.Holder{{State: &parent.State{Annotations: map[string]string{v1alpha1.AnnotationKeyClaims: `[{"content":"c","state":"pending",` +
		`"digest":"id1","at":"2026-01-02T12:00:01Z","relation":"External","by":[{"user":"mallory"},{"user":"anna"}],"counted":[{"user":"anna"}]}]`}}}}
	opens := func(digest string) gating.Decision {
		return gating.Decision{Action: gating.ActionOpen, Approval: &v1alpha1.HopApproval{Digest: digest, By: []v1alpha1.Vote{{User: "bob"}}}}
	}
	for name, tc := range map[string]struct {
		why  string
		d    gating.Decision
		want string
	}{
		"Opens":           {why: settling.WhyApproved, d: opens("id1"), want: ", by bob"},
		"OpensForAnother": {why: settling.WhyApproved, d: opens("id2"), want: ", by anna"},
		"Opened":          {why: settling.WhyApproved, want: ", by anna"},
		"Gone":            {why: "the external resource is as it should be", d: opens("id1")},
	} {
		if got := approval.ByText(approvalOf(have, tc.why, holders, tc.d)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestIndexChild: Drifts are found by their MR: external ones alone, and none of a
// refused deletion.
func TestIndexChild(t *testing.T) {
	d := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{Relation: v1alpha1.RelationExternal, Child: v1alpha1.ObjectReference{UID: "mr-uid"}}}
	if got := indexChild(d); len(got) != 1 || got[0] != "mr-uid" {
		t.Errorf("got %v", got)
	}
	d.Spec.Operation = string(admission.Delete)
	if got := indexChild(d); got != nil {
		t.Errorf("a refused deletion: %v", got)
	}
}
