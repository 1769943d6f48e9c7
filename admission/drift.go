package admission

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Resolutions of a drift, for audit and metrics.
const (
	ResolutionApproved = "approved"
	ResolutionUpgraded = "upgraded"
	ResolutionRejected = "rejected"
	ResolutionRefused  = "refused"
	ResolutionLogged   = "logged"
	ResolutionSnoozed  = "snoozed"
)

// maxUnexcepted is how many rules that could not be evaluated a message names.
const maxUnexcepted = 3

func (ev *evaluation) query() approval.Query {
	if ev.asked != nil {
		return *ev.asked
	}
	use := ev.use(ev.id)
	ev.asked = &approval.Query{
		APIVersion: use.Child.APIVersion, Kind: use.Child.Kind, Name: use.Child.Name, Resource: compositionResource(ev.req.current()),
		Relation: v1alpha1.RelationControllerChild, Digests: []string{ev.id}, Intent: ev.intent.Generation,
		Use: use,
	}
	return *ev.asked
}

// use of an approval by this request.
func (ev *evaluation) use(digest string) approval.Use {
	ref := ev.req.ref()
	apiVersion, kind := ref.ToAPIVersionAndKind()
	child := v1alpha1.ClaimChild{APIVersion: apiVersion, Kind: kind, Namespace: ref.Namespace, Name: ref.Name}
	if old := ev.req.OldObject; old != nil {
		child.UID, child.Version = old.GetUID(), identity.Version(old)
	}
	return approval.Use{Child: child, Digest: digest, User: ev.hash(), Claim: ev.reinvokedClaim(), Stale: settling.StaleClaims(ev.req.Time)}
}

func compositionResource(o *unstructured.Unstructured) string {
	return annotation(o, v1alpha1.AnnotationKeyCompositionResourceName)
}

func differenceID(req *Request, relation v1alpha1.Relation, p *parent.State, changes []change.Change) string {
	if req.Operation != Update {
		changes = nil
	}
	return change.ID(relation, string(req.Operation), identity.OfParent(p), identity.Of(req.ref(), compositionResource(req.current())), changes)
}

// rejected is row 9.
func (ev *evaluation) rejected() (bool, error) {
	r, ok := ev.set.Rejected(ev.query())
	if !ok {
		return false, nil
	}
	ev.d.Resolution = ResolutionRejected
	return ev.refuse(rejection(ev.parent.Ref, ev.kindOf(ev.parent), r))
}

// approved is row 11. The deletion of an MR whose gate a person opened for
// Delete is approved by that.
func (ev *evaluation) approved() (bool, error) {
	if ev.deletionApproved || ev.req.Operation == Delete && ev.kind.ManagementPolicies && gating.IsOpenFor(ev.req.OldObject.GetAnnotations(), v1alpha1.VerbDelete) {
		ev.d.Resolution = ResolutionApproved
		return ev.allow(ReasonApproved)
	}
	m, ok := ev.set.Approved(ev.query())
	if !ok {
		return false, nil
	}
	ev.d.Resolution = ResolutionApproved
	hop := &v1alpha1.HopApproval{Content: m.Entry.Content, Mode: m.Entry.Mode, Digest: ev.id}
	switch {
	case m.NeedsClaim():
		ev.claim(ev.parent, ev.set, m.Entry, ev.query().Use)
		hop.Claim = ev.d.Claim.ID
	case m.Claimed != nil:
		hop.Claim = m.Claimed.ID
	}
	ev.actor.approval = hop
	return ev.allow(ReasonApproved)
}

func (ev *evaluation) claim(holder *parent.State, set approval.Set, e approval.Entry, u approval.Use) {
	stored, has := holder.Annotations[v1alpha1.AnnotationKeyClaims]
	taken := e
	if taken.Generation == 0 {
		taken.Generation = holder.Generation // where it was never admitted; else its retry would find it stale
	}
	claims, claim := set.Claims.Take(taken, u, ev.req.Time)
	ev.d.Claim = &identity.ClaimEffect{Holder: holder.Ref, Entry: e, Use: u, Stored: stored, HasStored: has, Value: claims.String(), ID: claim.ID}
}

// drift is row 13: nobody asked for the change and nobody approved it.
func (ev *evaluation) drift() (bool, error) {
	r := ev.unasked()
	ev.d.Report = ev.report(r)
	ev.d.Suggestion = r.suggestion
	if ev.mode == v1alpha1.ModeLog {
		ev.d.Resolution, ev.d.Why = ResolutionLogged, r.why
		ev.warn("drift: " + ev.message(r))
		return ev.allow(ReasonDriftLogged)
	}
	ev.d.Resolution = ResolutionRefused
	if ev.d.Report.Snoozed {
		ev.d.Resolution = ResolutionSnoozed
	}
	return ev.refuse(r)
}

// unasked is the refusal of a drift, with what approves it.
func (ev *evaluation) unasked() refusal {
	r := refusal{code: 403, reason: ReasonDrift, suggestion: identity.ApproveCommand(ev.parent.Ref, ev.kindOf(ev.parent), ev.id)}
	r.why = "nobody asked for it: the spec of " + identity.Describe(ev.parent.Ref) + " has not changed since it settled at generation " +
		strconv.FormatInt(ev.intent.Generation, 10)
	if ev.needsApproval() {
		r.why = fmt.Sprintf("it is not by the controller of %s, and policy %s asks for approval of changes by anybody else",
			identity.Describe(ev.parent.Ref), ev.settings.Policy)
	} else if rev := ev.parent.CompositionRevision; rev != "" {
		r.why += " (composition revision " + rev + ")"
	}
	if e, ok := ev.set.Spent(ev.query()); ok {
		r.why += fmt.Sprintf("; the approval in annotation %s is used up or out of date", e.Key)
	}
	if len(ev.gov.missing) > 0 {
		r = ev.missing(r)
	}
	for _, w := range ev.gov.unexcepted[:min(len(ev.gov.unexcepted), maxUnexcepted)] {
		r.why += "; " + w
	}
	r.next = "To approve exactly this change: " + r.suggestion
	return r
}

func (ev *evaluation) kindOf(s *parent.State) identity.Kind { return ev.World.Kind(s.GroupVersionKind) }

// report of a refused or logged drift.
func (ev *evaluation) report(r refusal) *Report {
	out := &Report{ParentRef: ev.parent.Ref, Parent: ev.parent, Snoozed: ev.set.Snoozed(ev.req.Time)}
	if ev.Options.Unreported {
		return out
	}
	ref := ev.req.ref()
	secret := ref.GroupVersionKind.Group == "" && ref.Kind == "Secret"
	out.Drift = v1alpha1.DriftSpec{
		ID: ev.id, Relation: v1alpha1.RelationControllerChild, Parent: identity.ObjectReference(ev.parent.Ref, ev.parent.Generation, ""),
		Child:  identity.ObjectReference(ref, ev.req.current().GetGeneration(), compositionResource(ev.req.current())),
		Intent: ev.intent.Generation, Operation: string(ev.req.Operation), User: ev.req.User.Name, Cause: ev.cause(), SuggestedApproval: r.suggestion,
		Difference: change.Fields(ev.reported(), identity.MaxReportFields, secret),
	}
	return out
}

// reported changes: those of an update; creation and deletion are one change.
func (ev *evaluation) reported() []change.Change {
	if ev.req.Operation != Update {
		return nil
	}
	return ev.changes
}

func (ev *evaluation) cause() string {
	if rev := ev.parent.CompositionRevision; rev != "" && !ev.needsApproval() {
		return "composition revision " + rev
	}
	if ev.needsApproval() {
		return "user " + ev.req.User.Name
	}
	if ev.req.User.Name != "" {
		return "controller " + ev.req.User.Name
	}
	return "the controller of " + identity.Describe(ev.parent.Ref)
}
