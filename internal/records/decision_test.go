package records

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var (
	noon   = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	xr     = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "XDatabase"}
	mr     = schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Instance"}
	parsed = approval.ParseClaims
)

func hop(kind schema.GroupVersionKind, name, user string, generation int64, at time.Time) v1alpha1.Hop {
	return trace.Hop(parent.Ref{GroupVersionKind: kind, Namespace: "shop", Name: name}, generation, user, at)
}

func object(kind schema.GroupVersionKind, name string, annotations map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetNamespace("shop")
	u.SetName(name)
	u.SetUID(types.UID("uid-" + name))
	u.SetAnnotations(annotations)
	return u
}

func request(kind schema.GroupVersionKind, name, user string, old, new map[string]string) *admission.Request {
	return &admission.Request{
		Operation: admission.Update, Kind: kind, Namespace: "shop", Name: name, OldObject: object(kind, name, old), Object: object(kind, name, new),
		User: subject.User{Name: user}, FieldManager: "kubectl", Time: noon.Add(300 * time.Millisecond),
	}
}

// recorded of an occurrence, each valid, and the same each time.
func recorded(t *testing.T, o Occurrence) []recordsv1alpha1.Record {
	t.Helper()
	if o == nil {
		return nil
	}
	out := o.Records(cluster)
	assert.Empty(t, cmp.Diff(out, o.Records(cluster)), "the same occurrence has the same records")
	for _, r := range out {
		_, err := recordsv1alpha1.Encode(r)
		require.NoError(t, err)
	}
	return out
}

func typesOf(list []recordsv1alpha1.Record) (out []recordsv1alpha1.Type) {
	for _, r := range list {
		out = append(out, r.Type)
	}
	return out
}

// TestOfDecision covers KR-16-10: which records a decision has.
func TestOfDecision(t *testing.T) {
	own := trace.Trace{hop(xr, "orders", "anna", 3, noon)}
	freeze := map[string]string{v1alpha1.AnnotationKeyFreeze: `{"user":"hans","message":"incident 7"}`}
	deleted := request(xr, "orders", "anna", nil, nil)
	deleted.Operation, deleted.Object = admission.Delete, nil
	again := request(xr, "orders", "anna", nil, nil)
	again.Operation, again.Object = admission.Delete, nil
	now := metav1.NewTime(noon)
	again.OldObject.SetDeletionTimestamp(&now)
	dry := request(xr, "orders", "anna", nil, nil)
	dry.DryRun = true
	intent := admission.Decision{Answer: admission.Answer{Allowed: true, Class: outcome.ClassNewOrigin, Reason: outcome.ReasonNewOrigin}, Trace: own}
	cases := map[string]struct {
		reason string
		req    *admission.Request
		d      admission.Decision
		want   []recordsv1alpha1.Type
	}{
		"Intent": {req: request(xr, "orders", "anna", nil, nil), d: intent, want: []recordsv1alpha1.Type{"Intent"},
			reason: "a user changes an object"},
		"DryRun": {req: dry, d: intent, reason: "nothing happens"},
		"Refused": {req: request(xr, "orders", "anna", nil, nil), d: admission.Decision{Answer: admission.Answer{Class: outcome.ClassDrift}, Trace: own},
			reason: "the Drift is recorded"},
		"NoChange": {req: request(xr, "orders", "anna", nil, nil), d: admission.Decision{Answer: admission.Answer{Allowed: true}}, reason: "most requests"},
		"SelfWrite": {req: request(xr, "orders", "anna", nil, nil), d: admission.Decision{Answer: admission.Answer{Allowed: true, Class: outcome.ClassSelf}},
			reason: "no intent"},
		"Deletion": {req: deleted, d: admission.Decision{Answer: admission.Answer{Allowed: true, Class: outcome.ClassNewOrigin}},
			want: []recordsv1alpha1.Type{"Intent"}, reason: "a deletion is an intent"},
		"DeletionAgain": {req: again, d: admission.Decision{Answer: admission.Answer{Allowed: true, Class: outcome.ClassNewOrigin}}, reason: "it is being deleted"},
		"Freeze": {req: request(xr, "orders", "hans", nil, freeze), d: admission.Decision{Answer: admission.Answer{Allowed: true}, ChangesUserAnnotation: true},
			want: []recordsv1alpha1.Type{"Freeze"}, reason: "a user freezes it"},
		"StillFrozen": {req: request(xr, "orders", "hans", freeze, freeze),
			d: admission.Decision{Answer: admission.Answer{Allowed: true}, ChangesUserAnnotation: true}, reason: "another annotation changes"},
		"Rejection": {req: request(xr, "orders", "hans", nil, map[string]string{v1alpha1.AnnotationKeyRejections: "[]"}),
			d: admission.Decision{Answer: admission.Answer{Allowed: true}, ChangesUserAnnotation: true}, want: []recordsv1alpha1.Type{"Rejection"},
			reason: "a user rejects changes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.req.OldObject.DeepCopy()
			got := recorded(t, OfDecision(tc.req, tc.d))
			assert.Equal(t, tc.want, typesOf(got), tc.reason)
			assert.Empty(t, cmp.Diff(before, tc.req.OldObject), "the request is not changed")
		})
	}
}

func TestFreezeAndItsEnd(t *testing.T) {
	frozen := map[string]string{v1alpha1.AnnotationKeyFreeze: `{"user":"hans","message":"incident 7"}`}
	d := admission.Decision{Answer: admission.Answer{Allowed: true}, ChangesUserAnnotation: true}
	r := recorded(t, OfDecision(request(xr, "orders", "hans", nil, frozen), d))[0]
	assert.Equal(t, "Frozen", r.Reason)
	assert.Equal(t, "incident 7", r.Message)
	assert.Equal(t, "hans", r.Actor.User)
	r = recorded(t, OfDecision(request(xr, "orders", "hans", frozen, nil), d))[0]
	assert.Equal(t, "Unfrozen", r.Reason)
}

// annotationsWith claims.
func claims(t *testing.T, list ...v1alpha1.Claim) string {
	raw, err := json.Marshal(list)
	require.NoError(t, err)
	require.Len(t, parsed(string(raw)), len(list))
	return string(raw)
}

// TestChain covers KR-16-10, KR-16-11 and KR-16-12: the records of a change, from the user to the confirmation, each name the ones before.
func TestChain(t *testing.T) {
	// A user changes the composite.
	parentHop := hop(xr, "orders", "anna", 3, noon)
	intent := recorded(t, OfDecision(request(xr, "orders", "anna", nil, nil),
		admission.Decision{Answer: admission.Answer{Allowed: true, Class: outcome.ClassNewOrigin}, Trace: trace.Trace{parentHop}}))[0]
	assert.Equal(t, "anna", intent.Actor.User)
	assert.Equal(t, int64(3), intent.Object.Generation)
	assert.Empty(t, intent.CausedBy)

	// The controller wants something else later, and it is held.
	since := metav1.NewTime(noon.Add(time.Minute))
	held := v1alpha1.Drift{
		Spec: v1alpha1.DriftSpec{
			ID: "0123456789abcdef", Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE", User: "crossplane",
			Parent:     v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "XDatabase", Namespace: "shop", Name: "orders"},
			Child:      v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Instance", Namespace: "shop", Name: "orders-db"},
			Difference: []v1alpha1.FieldDifference{{Path: "spec.forProvider.size", Old: "1", New: `"a secret"`}},
			Causes:     []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: "databases-2", Author: "carol"}},
		},
		Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &since},
	}
	drift := recorded(t, OfDrift(&held, trace.Trace{parentHop}, false))[0]
	assert.Equal(t, recordsv1alpha1.TypeDriftHeld, drift.Type)
	assert.Equal(t, []string{intent.ID}, drift.CausedBy)
	assert.Equal(t, []string{"spec.forProvider.size"}, drift.Paths)
	raw, err := recordsv1alpha1.Encode(drift)
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "a secret", "no value is recorded")
	assert.Equal(t, recordsv1alpha1.TypeDriftLogged, recorded(t, OfDrift(&held, nil, true))[0].Type)

	// A user approves it on the composite.
	vote := v1alpha1.Vote{User: "hans", At: metav1.NewTime(noon.Add(2 * time.Minute)), Via: "kubectl-kausality"}
	claim := v1alpha1.Claim{Content: "c0ffee", State: v1alpha1.ClaimOpen, Digest: held.Spec.ID, At: vote.At, By: []v1alpha1.Vote{vote}}
	open := claims(t, claim)
	votes := recorded(t, OfDecision(request(xr, "orders", "hans", nil, nil),
		admission.Decision{Answer: admission.Answer{Allowed: true}, ChangesUserAnnotation: true,
			Annotations: map[string]*string{v1alpha1.AnnotationKeyClaims: &open}}))
	require.Equal(t, []recordsv1alpha1.Type{"Vote"}, typesOf(votes))
	assert.Equal(t, []string{held.Spec.ID}, votes[0].Differences)
	known := map[string]string{v1alpha1.AnnotationKeyClaims: open}
	assert.Empty(t, recorded(t, OfDecision(request(xr, "orders", "hans", known, known),
		admission.Decision{Answer: admission.Answer{Allowed: true},
			Annotations: map[string]*string{v1alpha1.AnnotationKeyClaims: &open}})), "a vote is recorded once")

	// The change passes by it.
	childHop := hop(mr, "orders-db", "crossplane", 5, noon.Add(3*time.Minute))
	childHop.Approval = &v1alpha1.HopApproval{Content: "c0ffee", Digest: held.Spec.ID, Mode: v1alpha1.ApprovalOnce, By: []v1alpha1.Vote{vote}}
	of := trace.Trace{parentHop, childHop}
	passed := recorded(t, OfDecision(request(mr, "orders-db", "crossplane", nil, nil), admission.Decision{
		Answer: admission.Answer{Allowed: true, Class: outcome.ClassDrift, Reason: outcome.ReasonApproved, Digest: change.Digest(held.Spec.ID),
			Claim: &identity.ClaimEffect{Holder: parent.Ref{GroupVersionKind: xr, Namespace: "shop", Name: "orders", UID: "uid-orders"}}},
		Trace: of, Changes: []change.Change{{Path: "spec.forProvider.size"}}}))
	require.Equal(t, []recordsv1alpha1.Type{"ApprovalUsed", "Intent"}, typesOf(passed))
	assert.Equal(t, []string{votes[0].ID}, passed[0].CausedBy)
	assert.Equal(t, []string{passed[0].ID, intent.ID}, passed[1].CausedBy)
	assert.Equal(t, "hans", passed[1].Approvers[0].User)

	// The gate opens, and closes when the provider confirms.
	state := &parent.State{Ref: parent.Ref{GroupVersionKind: mr, Namespace: "shop", Name: "orders-db"},
		Annotations: map[string]string{v1alpha1.AnnotationKeyTrace: of.String()}}
	isOpen := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate},
		Generation: 5, At: childHop.Timestamp, Reason: v1alpha1.GateReasonChanged}
	opened := recorded(t, OfTransition(Transition{Object: state, External: "db-1",
		Was: v1alpha1.Gate{State: v1alpha1.GateClosed}, Is: isOpen, At: noon.Add(4 * time.Minute)}))
	require.Equal(t, []recordsv1alpha1.Type{"GateOpened"}, typesOf(opened))
	assert.Equal(t, []string{passed[1].ID}, opened[0].CausedBy)
	assert.Equal(t, "db-1", opened[0].External)
	again := recorded(t, OfTransition(Transition{Object: state, Was: v1alpha1.Gate{}, Is: isOpen, At: noon.Add(time.Hour)}))
	assert.Equal(t, opened[0].ID, again[0].ID, "whenever a replica sees it")
	assert.Equal(t, opened[0].Time, again[0].Time)

	closed := isOpen
	closed.State, closed.Reason = v1alpha1.GateClosed, v1alpha1.GateReasonConfirmed
	confirmed := recorded(t, OfTransition(Transition{Object: state, Was: isOpen, Is: closed, At: noon.Add(5 * time.Minute)}))
	require.Equal(t, []recordsv1alpha1.Type{"GateConfirmed"}, typesOf(confirmed))
	assert.Equal(t, []string{opened[0].ID}, confirmed[0].CausedBy)
	assert.Nil(t, OfTransition(Transition{Object: state, Was: closed, Is: closed}))

	held.Status.Phase, held.Status.Resolution = v1alpha1.DriftResolved, "it was approved"
	held.Status.Votes = []v1alpha1.Vote{{User: "mallory"}}
	held.Status.Approval = &v1alpha1.HopApproval{Mode: v1alpha1.ApprovalOnce, By: []v1alpha1.Vote{{User: "hans"}}}
	over := recorded(t, OfResolution(&held, noon.Add(6*time.Minute)))[0]
	assert.Contains(t, over.CausedBy, drift.ID)
	require.Len(t, over.Approvers, 1, "those whose votes counted")
	assert.Equal(t, "hans", over.Approvers[0].User)
	assert.Equal(t, "once", over.Approval.Mode)
}

// TestOfTransition covers KR-16-12: approvals by which a gate opened.
func TestOfTransition(t *testing.T) {
	vote := v1alpha1.Vote{User: "hans", At: metav1.NewTime(noon)}
	holder := parent.Ref{GroupVersionKind: xr, Namespace: "shop", Name: "orders"}
	state := &parent.State{Ref: parent.Ref{GroupVersionKind: mr, Namespace: "shop", Name: "orders-db"}}
	got := recorded(t, OfTransition(Transition{
		Object: state, Is: v1alpha1.Gate{State: v1alpha1.GateOpen, At: metav1.NewTime(noon), Claim: "use-1", Digest: "d", Reason: v1alpha1.GateReasonApproved},
		Claims: map[parent.Ref]string{holder: claims(t, v1alpha1.Claim{ID: "other"}, v1alpha1.Claim{ID: "use-1", Content: "c", By: []v1alpha1.Vote{vote}})},
	}))
	require.Equal(t, []recordsv1alpha1.Type{"ApprovalUsed", "GateOpened"}, typesOf(got))
	assert.Equal(t, []string{voteID(cluster, objectOf(holder), "c", vote)}, got[0].CausedBy)
	assert.Equal(t, []string{got[0].ID}, got[1].CausedBy)
	expired := recorded(t, OfTransition(Transition{Object: state, Was: v1alpha1.Gate{State: v1alpha1.GateOpen},
		Is: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonExpired}, At: noon}))
	assert.Equal(t, []recordsv1alpha1.Type{"GateExpired"}, typesOf(expired))
	other := recorded(t, OfTransition(Transition{Object: state, Was: v1alpha1.Gate{State: v1alpha1.GateOpen},
		Is: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonWindow}, At: noon}))
	assert.Equal(t, []recordsv1alpha1.Type{"GateClosed"}, typesOf(other))
}

func TestBreakGlass(t *testing.T) {
	vote := v1alpha1.Vote{User: "hans", At: metav1.NewTime(noon), BreakGlass: "the shop is down"}
	open := claims(t, v1alpha1.Claim{Content: "c", State: v1alpha1.ClaimOpen, By: []v1alpha1.Vote{vote}})
	got := recorded(t, OfDecision(request(xr, "orders", "hans", nil, nil),
		admission.Decision{Answer: admission.Answer{Allowed: true}, Annotations: map[string]*string{v1alpha1.AnnotationKeyClaims: &open}}))
	require.Equal(t, []recordsv1alpha1.Type{"Vote", "BreakGlass"}, typesOf(got))
	assert.Equal(t, "the shop is down", got[1].Message)
	assert.Equal(t, []string{got[0].ID}, got[1].CausedBy)
}

// TestAllowedPathIsCheap covers KR-16-03: what a request pays that changes nothing, and one that does, does not grow with the object.
func TestAllowedPathIsCheap(t *testing.T) {
	large := map[string]string{}
	for i := range 200 {
		large[time.Duration(i).String()] = "value"
	}
	for name, tc := range map[string]struct {
		d      admission.Decision
		allocs float64
	}{
		"NoChange": {d: admission.Decision{Answer: admission.Answer{Allowed: true}}, allocs: 0},
		"Intent": {d: admission.Decision{Answer: admission.Answer{Allowed: true, Class: outcome.ClassNewOrigin},
			Trace: trace.Trace{hop(xr, "orders", "anna", 3, noon)}},
			allocs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(xr, "orders", "anna", large, large)
			var o Occurrence
			assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { o = OfDecision(req, tc.d) }), tc.allocs)
			if best := quickest(func() { o = OfDecision(req, tc.d) }); best > 5*time.Microsecond {
				t.Errorf("it costs %s: %v", best, o)
			}
		})
	}
}

// TestGivenVotes covers KR-16-13: the votes of a Rollout, which our own component writes.
func TestGivenVotes(t *testing.T) {
	vote := v1alpha1.Vote{User: "hans", At: metav1.NewTime(noon), Via: "Rollout"}
	open := map[string]string{v1alpha1.AnnotationKeyClaims: claims(t, v1alpha1.Claim{Content: "c", State: v1alpha1.ClaimOpen, By: []v1alpha1.Vote{vote}})}
	component := admission.Decision{Answer: admission.Answer{Allowed: true, Reason: outcome.ReasonComponent}}
	got := recorded(t, OfDecision(request(xr, "orders", "kausality", nil, open), component))
	require.Equal(t, []recordsv1alpha1.Type{"Vote"}, typesOf(got))
	assert.Equal(t, "hans", got[0].Actor.User)
	assert.Nil(t, OfDecision(request(xr, "orders", "kausality", open, open), component))
}

// TestOfRollout covers KR-16-13.
func TestOfRollout(t *testing.T) {
	ref := parent.Ref{GroupVersionKind: v1alpha1.GroupVersion.WithKind("Rollout"), Namespace: "shop", Name: "databases-2"}
	spec := &v1alpha1.RolloutSpec{Cause: v1alpha1.RolloutCause{CompositionRevision: "databases-2"}}
	vote := v1alpha1.Vote{User: "hans", At: metav1.NewTime(noon)}
	pending := &v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutPending, Plan: &v1alpha1.RolloutPlan{ID: "plan"}}
	approved := pending.DeepCopy()
	approved.Phase, approved.Wave, approved.Votes = v1alpha1.RolloutProgressing, 1, []v1alpha1.Vote{vote}
	got := recorded(t, OfRollout(ref, 1, spec, pending, approved, noon))
	require.Equal(t, []recordsv1alpha1.Type{"Vote", "Rollout"}, typesOf(got))
	assert.Equal(t, []string{got[0].ID}, got[1].CausedBy)
	assert.Equal(t, "Progressing", got[1].Reason)
	assert.Equal(t, []recordsv1alpha1.Cause{{Kind: "CompositionRevision", Name: "databases-2"}}, got[1].Causes)

	next := approved.DeepCopy()
	next.Wave = 2
	assert.Equal(t, []recordsv1alpha1.Type{"Rollout"}, typesOf(recorded(t, OfRollout(ref, 1, spec, approved, next, noon))), "a vote is recorded once")
	next = approved.DeepCopy()
	next.Done = 7
	assert.Nil(t, OfRollout(ref, 1, spec, approved, next, noon))
}
