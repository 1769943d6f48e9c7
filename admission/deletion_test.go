package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const openDelete = `{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:00:00Z"}`

var orphanAsked = fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan")

func open(o *unstructured.Unstructured) {
	fx.Policies(fx.Observe, fx.Delete)(o)
	fx.GateValue(openDelete)(o)
}

// The deletion of a managed resource (KR-08-10, KR-08-11, KR-08-19).
func TestDeleteManaged(t *testing.T) {
	refuse, pass := refused("", outcome.ReasonExternalDeletion, 403), allowed(outcome.ClassNewOrigin, outcome.ReasonNewOrigin)
	lone := func(o *unstructured.Unstructured) *unstructured.Unstructured { return fx.With(o, plainOwner) }
	cases := map[string]struct {
		reason string
		mr     *unstructured.Unstructured
		user   subject.User
		xr     []fx.Mod
		opts   Options
		want   wantedOutcome
	}{
		"Closed": {reason: "it would orphan", mr: fx.Instance(), user: fx.Alice, opts: enforced(), want: refuse},
		"ClosedGC": {reason: "for every user: the garbage collector", mr: fx.Instance(), user: fx.Collector, opts: enforced(),
			want: refuse},
		"ClosedCrossplane": {reason: "for every user: Crossplane", mr: fx.Instance(), user: fx.Crossplane, opts: enforced(), want: refuse},
		"ClosedLone":       {reason: "with or without a parent", mr: lone(fx.Instance()), user: fx.Alice, opts: enforced(), want: refuse},
		"ClosedXRDeleting": {reason: "the parent being deleted is no excuse", mr: fx.Instance(), user: fx.Collector, xr: []fx.Mod{fx.Deleting},
			opts: enforced(), want: refuse},
		"Unmasked": {reason: "the policies hold Delete, but no approval allows it", mr: fx.Unmasked(), user: fx.Alice,
			opts: enforced(), want: refuse},
		"Orphan": {reason: "orphaning is requested on the MR", mr: fx.With(fx.Instance(), orphanAsked), user: fx.Alice,
			opts: enforced(), want: pass},
		"AuthorNoDelete": {reason: "the author's policies orphan",
			mr: fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["Observe","Create","Update"]`)), user: fx.Alice, opts: enforced(),
			want: pass},
		"AuthorObserve": {reason: "the author only looks", mr: fx.With(fx.Unmasked(), fx.Policies(fx.Observe)), user: fx.Alice,
			opts: enforced(), want: pass},
		"PolicyOrphan": {reason: "deletionPolicy: Orphan with [\"*\"]",
			mr: fx.With(fx.Instance(), fx.Set("Orphan", "spec", "deletionPolicy")), user: fx.Alice, opts: enforced(), want: pass},
		"PolicyOrphanList": {reason: "an explicit list that holds Delete deletes",
			mr: fx.With(fx.Instance(), fx.Set("Orphan", "spec", "deletionPolicy"), fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies,
				`["Observe","Create","Update","Delete"]`)),
			user: fx.Alice, opts: enforced(), want: refuse},
		"PolicyDelete": {reason: "deletionPolicy: Delete does not help",
			mr: fx.With(fx.Instance(), fx.Set("Delete", "spec", "deletionPolicy")), user: fx.Alice, opts: enforced(), want: refuse},
		"Open": {reason: "the gate is open for Delete", mr: fx.With(fx.Instance(), open), user: fx.Alice, opts: enforced(),
			want: pass},
		"OpenCrossplane": {reason: "what opened the gate approves Crossplane's deletion too", mr: fx.With(fx.Instance(), open),
			user: fx.Crossplane, opts: enforced(), want: allowed(outcome.ClassDrift, outcome.ReasonApproved)},
		"OpenLone": {reason: "with or without a parent", mr: lone(fx.With(fx.Instance(), open)), user: fx.Alice, opts: enforced(),
			want: allowed(outcome.ClassNewOrigin, outcome.ReasonNoParent)},
		"OpenFrozen": {reason: "a frozen parent holds it back", mr: fx.With(fx.Instance(), open), user: fx.Alice,
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")}, opts: enforced(), want: refused(outcome.ClassNewOrigin, outcome.ReasonFrozen, 403)},
		"OpenForUpdate": {reason: "another verb",
			mr: fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Update), fx.GateValue(`{"state":"open","verbs":["Update"],"at":null}`)), user: fx.Alice,
			opts: enforced(), want: refuse},
		"OpenNotYetApplied": {reason: "the gate is open, the policies do not hold Delete yet",
			mr: fx.With(fx.Instance(), fx.GateValue(openDelete)), user: fx.Alice, opts: enforced(), want: refuse},
		"BeingDeleted": {reason: "it is deleted already", mr: fx.With(fx.Instance(), fx.Deleting), user: fx.Alice, opts: enforced(),
			want: allowed("", outcome.ReasonBeingDeleted)},
		"Log": {reason: "log masks nothing: a warning", mr: fx.Unmasked(), user: fx.Alice, opts: Options{}, want: pass},
		"LogMasked": {reason: "a mask that log mode has not lifted yet would orphan all the same", mr: fx.Instance(),
			user: fx.Alice, opts: Options{}, want: refuse},
		"LogLifted": {reason: "without the mask it is as without us",
			mr: fx.With(fx.Unmasked(), fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["*"]`)), user: fx.Alice, opts: Options{}, want: pass},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{xr: tc.xr}.world(), tc.opts, by(byCrossplane(Delete, tc.mr), tc.user, ""))
			if got := outcomeOf(d); got != tc.want {
				t.Errorf("%s: want %+v, got %+v: %s", tc.reason, tc.want, got, d.Message)
			}
			if len(d.Annotations) > 0 || d.ManagementPolicies != nil || d.Gate != nil {
				t.Errorf("%s: a DELETE cannot be mutated", tc.reason)
			}
			logged := d.Allowed && strings.HasPrefix(name, "Log")
			if logged != (len(d.Warnings) > 0) || logged && d.Report == nil {
				t.Errorf("%s: warnings %v, report %v", tc.reason, d.Warnings, d.Report)
			}
		})
	}
}

// An approval of the deletion opens the gate first; the retry passes (KR-08-10).
func TestDeleteManagedApproved(t *testing.T) {
	refusal := decide(t, setting{}.world(), enforced(), by(byCrossplane(Delete, fx.Instance()), fx.Alice, ""))
	if refusal.Report == nil || refusal.Report.Drift.Relation != v1alpha1.RelationExternal || refusal.Report.Drift.ID != refusal.Digest.ID() {
		t.Fatalf("got report %+v", refusal.Report)
	}
	for name, key := range map[string][2]string{
		"Suggested": {v1alpha1.AnnotationKeyApprovePrefix + refusal.Digest.ID(), "once"},
		"External":  {v1alpha1.AnnotationKeyApprovals, `[{"kind":"Instance","resource":"instance","relation":"External","verbs":["Delete"]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: []fx.Mod{fx.Annotate(key[0], key[1])}}.world()
			closed := decide(t, w, enforced(), by(byCrossplane(Delete, fx.Instance()), fx.Alice, ""))
			if closed.Allowed || !strings.Contains(closed.Message, "it is approved, and the gate is being opened") || closed.Claim != nil || closed.Report != nil {
				t.Errorf("closed: %+v: %s", outcomeOf(closed), closed.Message)
			}
			if d := decide(t, w, enforced(), by(byCrossplane(Delete, fx.With(fx.Instance(), open)), fx.Alice, "")); !d.Allowed || d.Claim != nil {
				t.Errorf("opened: %+v, claim %v", outcomeOf(d), d.Claim)
			}
			bare := decide(t, w, enforced(), by(byCrossplane(Delete, fx.Unmasked()), fx.Alice, ""))
			if !bare.Allowed || bare.Claim == nil {
				t.Errorf("never masked: %+v, claim %v: %s", outcomeOf(bare), bare.Claim, bare.Message)
			}
		})
	}
	child := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, approveAll)}}.world()
	if d := decide(t, child, enforced(), by(byCrossplane(Delete, fx.Instance()), fx.Alice, "")); d.Allowed {
		t.Error("approving the object's deletion does not approve that of the cloud resource")
	}
}

// The deletion of an XR or Claim is judged for all MRs below it (KR-08-12).
func TestDeleteComposite(t *testing.T) {
	mr := func(name string, mods ...fx.Mod) *parent.State {
		return parent.Sum(fx.With(fx.Instance(), append([]fx.Mod{fx.Set(name, "metadata", "name")}, mods...)...), parent.RoleManaged)
	}
	inLog := fx.Annotate(v1alpha1.AnnotationKeyMode, "log")
	bare := func(name string, mods ...fx.Mod) *parent.State {
		return parent.Sum(fx.With(fx.Unmasked(), append([]fx.Mod{fx.Set(name, "metadata", "name")}, mods...)...), parent.RoleManaged)
	}
	many := make([]*parent.State, 0, 14)
	for _, n := range strings.Split("abcdefghijklmn", "") {
		many = append(many, mr("mr-"+n))
	}
	cases := map[string]struct {
		reason string
		below  []*parent.State
		err    error
		opts   Options
		want   bool
		names  []string
		absent string
	}{
		"None": {reason: "nothing below", opts: enforced(), want: true},
		"Closed": {reason: "refused with their list", below: []*parent.State{mr("a"), mr("b")}, opts: enforced(),
			names: []string{"Instance a, Instance b", "to leave it behind on purpose: kubectl annotate instances.aws.example.org a kausality.io/deletion=orphan && " +
				"kubectl annotate instances.aws.example.org b kausality.io/deletion=orphan"}},
		"OneOf": {reason: "while one would be orphaned", below: []*parent.State{mr("a", open), mr("b"), mr("c", orphanAsked)},
			opts: enforced(), names: []string{"Instance b"}, absent: "Instance a"},
		"AllFine": {reason: "open, or orphaning requested",
			below: []*parent.State{mr("a", open), mr("c", orphanAsked), mr("d", fx.Deleting)}, opts: enforced(), want: true},
		"Many": {reason: "no more than ten names", below: many, opts: enforced(),
			names:  []string{"mr-j, 4 more", " mr-e kausality.io/deletion=orphan , and so for 9 more"},
			absent: "mr-k"},
		"LogMR": {reason: "MRs in log mode without a mask do not count", below: []*parent.State{bare("a", inLog)},
			opts: enforced(), want: true},
		"LogMasked": {reason: "a mask that log mode has not lifted yet counts", below: []*parent.State{mr("a", inLog)},
			opts: enforced(), names: []string{"Instance a"}},
		"Log": {reason: "log mode masks nothing", below: []*parent.State{bare("a")}, opts: Options{}, want: true},
		"Enforced": {reason: "an MR under enforce counts, whatever the XR's mode",
			below: []*parent.State{mr("a", fx.Annotate(v1alpha1.AnnotationKeyMode, "enforce"))}, opts: Options{}, names: []string{"Instance a"}},
		"Unread":    {reason: "cannot be read: not allowed", err: errors.New("boom"), opts: enforced(), names: []string{"boom"}},
		"UnreadLog": {reason: "cannot be read: a warning", err: errors.New("boom"), opts: Options{}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := setting{}.world()
			w.managed, w.managedErr = tc.below, tc.err
			d := decide(t, w, tc.opts, by(byCrossplane(Delete, fx.Composite()), fx.Alice, ""))
			if d.Allowed != tc.want {
				t.Errorf("%s: allowed %t (%s): %s", tc.reason, d.Allowed, d.Reason, d.Message)
			}
			for _, n := range tc.names {
				if !strings.Contains(d.Message, n) {
					t.Errorf("%s: %q is missing from: %s", tc.reason, n, d.Message)
				}
			}
			if tc.absent != "" && strings.Contains(d.Message, tc.absent) {
				t.Errorf("%s: %q does not belong into: %s", tc.reason, tc.absent, d.Message)
			}
		})
	}
}

// With --cascade=orphan a composite deletes nothing; of a Claim, Crossplane deletes the
// composite (KR-08-12).
func TestDeleteCompositeOrphans(t *testing.T) {
	for _, role := range []parent.Role{parent.RoleComposite, parent.RoleClaim} {
		w := setting{}.world()
		w.managed = []*parent.State{parent.Sum(fx.Instance(), parent.RoleManaged)}
		xr := fx.Composite()
		w.kinds[xr.GroupVersionKind().GroupKind()] = identity.Kind{Role: role}
		r := by(byCrossplane(Delete, xr), fx.Alice, "")
		r.Orphans = true
		if d := decide(t, w, enforced(), r); d.Allowed != (role == parent.RoleComposite) {
			t.Errorf("%v: %+v: %s", role, outcomeOf(d), d.Message)
		}
	}
}

// What is decided on a composite is not evaded by orphaning what it composes (KR-13-61).
func TestOrphaningEvadesNothing(t *testing.T) {
	may := false
	rbac := stubs{Options: enforced()}
	rbac.mayApprove = func(context.Context, subject.User, parent.Ref) (bool, error) { return may, nil }
	remove := func(o evaluating, below []*parent.State, mods ...fx.Mod) Decision {
		w := setting{}.world()
		w.managed = below
		r := by(byCrossplane(Delete, fx.With(fx.Composite(), mods...)), fx.Alice, "")
		r.Orphans = true
		return decide(t, w, o, r)
	}
	below := []*parent.State{parent.Sum(fx.Instance(), parent.RoleManaged)}
	freeze := fx.Annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"alice"}`)
	if d := remove(enforced(), below, freeze); d.Allowed || d.Reason != outcome.ReasonFrozen {
		t.Errorf("frozen: %+v: %s", outcomeOf(d), d.Message)
	}
	if d := remove(rbac, below); d.Allowed || d.Reason != outcome.ReasonApproverForbidden {
		t.Errorf("without the verb: %+v: %s", outcomeOf(d), d.Message)
	}
	if d := remove(rbac, nil); !d.Allowed {
		t.Errorf("with nothing below: %+v: %s", outcomeOf(d), d.Message)
	}
	if may = true; !remove(rbac, below).Allowed {
		t.Error("with the verb")
	}
}

// What the message suggests approves the deletion of the whole: the gates open,
// and once they are open it passes (KR-08-12).
func TestDeleteCompositeApproved(t *testing.T) {
	w := setting{}.world()
	w.managed = []*parent.State{parent.Sum(fx.Instance(), parent.RoleManaged)}
	refusal := decide(t, w, enforced(), by(byCrossplane(Delete, fx.Composite()), fx.Alice, ""))
	xr := annotatedBy(t, fx.Composite(), refusal.Suggestion)
	if _, ok := approval.Parse(xr.GetAnnotations()).Approved(approval.Query{Digests: []change.Digest{identity.WholeOf(parent.Sum(xr,
		parent.RoleComposite), w.managed).Digest}, Intent: 5}); !ok {
		t.Errorf("the gate does not find the approval %s", refusal.Suggestion)
	}
	d := decide(t, w, enforced(), by(byCrossplane(Delete, xr), fx.Alice, ""))
	if d.Allowed || !strings.Contains(d.Message, "it is approved, and the gate is being opened") {
		t.Errorf("approved, not yet open: %+v: %s", outcomeOf(d), d.Message)
	}
	w.managed = []*parent.State{parent.Sum(fx.With(fx.Instance(), open), parent.RoleManaged)}
	if d := decide(t, w, enforced(), by(byCrossplane(Delete, xr), fx.Alice, "")); !d.Allowed {
		t.Errorf("all open: %+v: %s", outcomeOf(d), d.Message)
	}
}
