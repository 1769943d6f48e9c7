package gating

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// difference returns the difference of the external resource that an approval would remove, and the
// verbs that this needs.
func (g Managed) difference(author []string) ([]change.Change, []v1alpha1.Verb) {
	if g.Gone && !mask.Gives(author, v1alpha1.VerbCreate) {
		return nil, nil // its author never creates it: no approval would
	}
	if g.Gone {
		return []change.Change{{Path: external.Exists, Verb: change.Mutate, Old: false, New: true}},
			[]v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate}
	}
	if len(g.Difference) == 0 || !mask.Gives(author, v1alpha1.VerbUpdate) {
		return nil, nil
	}
	return g.Difference, []v1alpha1.Verb{v1alpha1.VerbUpdate}
}

// whileClosed reports external drift until it is approved or gone (KR-08-21), and
// opens the gate once it is approved (KR-08-05).
func (g Managed) whileClosed(author []string, gate v1alpha1.Gate) Decision {
	diff, verbs := g.difference(author)
	if g.paused(gate) {
		return Decision{Why: "it is closed"}
	}
	if d, ok := g.resume(author, gate, diff); ok {
		return d
	}
	switch {
	case len(diff) == 0 && retargeted(gate, g.MR):
		return g.settleRetargeted(author, gate)
	case len(diff) == 0:
		return g.withoutDifference(author, gate)
	}
	digest := identity.DriftDigest(g.owner().State, g.MR, diff) // that of the report, wherever it is approved
	for _, h := range g.Holders {
		set := h.Decisions(g.Now)
		g.adoptPendingClaims(set.Claims, gate, digest.ID())
		m, ok := set.Approved(g.query(h.State, verbs, digest))
		if !ok && g.Gone { // an approval of Create alone creates, and no update finishes it
			create := []v1alpha1.Verb{v1alpha1.VerbCreate}
			if m, ok = set.Approved(g.query(h.State, create, digest)); ok {
				verbs = create
			}
		}
		if !ok || m.Claimed != nil && HasUse(gate, m.Claimed.ID) {
			continue
		}
		if why := g.stopped(verbs); why != "" {
			return Decision{Drift: g.drift(diff), Why: why}
		}
		d := g.open(author, gate, h, set, m, digest.ID(), verbs, change.Paths(diff))
		d.Gate.Destroys = planDestroys(g.MR.GroupKind(), diff, m.Entry)
		return d
	}
	why := "the external resource differs and no approval covers the difference"
	votes, lacks := g.tally(verbs, digest)
	if lacks != "" {
		why += ": " + lacks
	}
	return Decision{Drift: g.drift(diff), Why: why, Votes: votes, Lacks: lacks}
}

// resume opens the gate for changes that were accepted while the external resource differed elsewhere, once it no
// longer does: nothing but what they requested is left to be carried out (KR-08-61). So are changes whose gate a freeze
// closed (KR-14-42).
func (g Managed) resume(author []string, gate v1alpha1.Gate, diff []change.Change) (Decision, bool) {
	paths, verbs := awaiting(gate)
	verbs = slices.DeleteFunc(verbs, func(v v1alpha1.Verb) bool { return !mask.Gives(author, v) })
	if len(paths) == 0 || len(verbs) == 0 || retargeted(gate, g.MR) || len(external.Outside(diff, paths)) > 0 || g.stopped(verbs) != "" {
		return Decision{}, false
	}
	next := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: verbs, Paths: paths, At: approval.Stamp(g.Now), Claim: g.unfinished(gate),
		Destroys: gate.Destroys, Reason: v1alpha1.GateReasonChanged, External: gate.External, Opened: gate.Opened}
	return g.stored(ActionOpen, author, next), true
}

// paused reports whether the managed resource is paused or, where a change was accepted while it was, its provider has yet to observe it:
// the runtime sets the condition Synced to False meanwhile, and reports the generation at which the gate was closed once it has (KR-08-72).
func (g Managed) paused(gate v1alpha1.Gate) bool {
	if g.MR.Paused || gate.Reason != v1alpha1.GateReasonPaused {
		return g.MR.Paused
	}
	synced, reported := g.MR.Condition("Synced")
	return reported && (synced.Status != metav1.ConditionTrue || synced.ObservedGeneration > 0 && synced.ObservedGeneration < g.MR.Generation)
}

// stopped returns the freeze, or the rejection of the managed resource, on it or above it, that keeps
// the gate closed although an approval matches, as a clause; "" where nothing does. A holder that is
// being deleted is not frozen: its cleanup must finish. While the policy is suspended, nothing checks
// who writes approvals (KR-12-13).
func (g Managed) stopped(verbs []v1alpha1.Verb) string {
	if g.Suspended {
		return "the Kausality policy is suspended"
	}
	if f := g.frozen(); f != nil {
		return f.Why()
	}
	for _, h := range g.Holders {
		if h.State.Deleting() {
			continue
		}
		if r, ok := h.Decisions(g.Now).Rejected(g.query(h.State, verbs, "")); ok {
			return identity.Rejected(h.State.Ref, r)
		}
	}
	return ""
}

// frozen returns the freeze of the managed resource or of what is above it; nil for none.
func (g Managed) frozen() *identity.Freeze {
	if f := g.Covering.Freeze(g.MR.Ref, g.Kind, g.Now); f != nil {
		return f
	}
	for _, h := range g.Holders {
		if f := h.Freeze(g.Now); f != nil {
			return f
		}
	}
	return nil
}

// query returns the query of a holder's approvals for verbs on the external resource. The intent is that
// of the holder: an approval is valid by the generation of the object that carries it.
func (g Managed) query(holder *parent.State, verbs []v1alpha1.Verb, digest change.Digest) approval.Query {
	intent, _ := trace.Intent(holder)
	apiVersion, kind := g.MR.ToAPIVersionAndKind()
	// Since its gate was moved last, before which nothing was held behind it.
	lacks, counted := g.poll(g.rules(verbs), trace.Authors(g.MR.Annotations, mask.ParseGate(g.MR.Annotations).Generation))
	return approval.Query{
		APIVersion: apiVersion, Kind: kind, Name: g.MR.Name, Resource: g.MR.Annotations[v1alpha1.AnnotationKeyCompositionResourceName],
		Relation: v1alpha1.RelationExternal, Verbs: verbs, Digests: []change.Digest{digest}, Intent: intent.Generation, Use: g.use(digest.ID()),
		Named: slices.Contains(verbs, v1alpha1.VerbDelete), Exact: Retargeted(g.MR),
		Means: verb.Of(g.MR.GroupKind()).Means, Default: verb.Default(g.MR.GroupKind()),
		Lacks: lacks, Counted: counted,
	}
}

// ExternalChange returns a change of the external resource of an object by verbs, as ApprovalRules see it. The caller
// adds the fields that it changes.
func ExternalChange(o *parent.State, verbs []v1alpha1.Verb) allowance.Change {
	return allowance.Change{Kind: o.GroupKind(), Namespace: o.Namespace, Name: o.Name, Labels: o.Labels,
		Relation: v1alpha1.RelationExternal, Verbs: verbs}
}

// poll returns approval.Query.Lacks and approval.Query.Counted for a change that rules match and authors made (KR-14-03, KR-14-10).
func (g Managed) poll(rules allowance.Rules, authors []string) (lacks func([]v1alpha1.Vote) (string, bool), counted func([]v1alpha1.Vote) []v1alpha1.Vote) {
	if len(rules) == 0 {
		return nil, nil
	}
	of := allowance.Authors{Names: authors}
	lacks = func(votes []v1alpha1.Vote) (string, bool) { return rules.Lacks(votes, of, g.Now) }
	return lacks, func(votes []v1alpha1.Vote) []v1alpha1.Vote { return rules.Counted(votes, of, g.Now) }
}

// covering returns what may freeze the managed resource from outside.
func (g Managed) covering() identity.Covering {
	for _, h := range g.Holders {
		if h.State.UID == g.MR.UID {
			return h.Covering
		}
	}
	return g.Covering
}

// rules returns the ApprovalRules that match verbs on the external resource, or other changes that are approved together with these.
func (g Managed) rules(verbs []v1alpha1.Verb, others ...allowance.Change) allowance.Rules {
	if !g.Policies.HasRules() {
		return nil
	}
	c := ExternalChange(g.MR, verbs)
	c.Changes, c.Creates, c.NamespaceLabels = g.Difference, g.Gone, g.covering().Namespace.Labels
	return g.Policies.MatchingAny(append(others, c))
}

// tally returns the votes to remove a difference, and what they lack, as approval.Set.Tally. Of several
// holders it uses that on which the report suggests the approval.
func (g Managed) tally(verbs []v1alpha1.Verb, digest change.Digest) (votes []v1alpha1.Vote, lacking string) {
	h := g.owner()
	return h.Decisions(g.Now).Tally(g.query(h.State, verbs, digest))
}

// use returns the use of an approval by the gate. It has no version of the managed resource, since its
// generation moves with the mask itself: the difference identifies the use.
func (g Managed) use(id string) approval.Use {
	apiVersion, kind := g.MR.ToAPIVersionAndKind()
	return approval.Use{
		Child:  v1alpha1.ClaimChild{APIVersion: apiVersion, Kind: kind, Namespace: g.MR.Namespace, Name: g.MR.Name, UID: g.MR.UID},
		Digest: id, User: g.User, Relation: v1alpha1.RelationExternal,
	}
}

// adoptPendingClaims makes claims that were taken for this managed resource, and
// whose opening was never stored, claims of the use with an id: the difference may
// have changed meanwhile, and an unused claim is not lost. A claim by a DELETE of the very same deletion is free to be
// taken: the object is deleted once, and the API server refuses that DELETE where the gate was closed in the meantime.
func (g Managed) adoptPendingClaims(claims approval.Claims, gate v1alpha1.Gate, id string) {
	for i, c := range claims {
		switch {
		case c.State != v1alpha1.ClaimPending, c.Child == nil, c.Child.UID != g.MR.UID, HasUse(gate, c.ID):
		case c.Relation == v1alpha1.RelationExternal:
			use := g.use(id)
			claims[i].Child, claims[i].Digest, claims[i].User = &use.Child, id, g.User
		case c.Digest == id:
			claims[i].State = v1alpha1.ClaimOpen
		}
	}
}

// open opens the gate by an approval. A claim that was taken before is used again if its opening was
// never stored. Unfinished uses that the gate records stay recorded.
func (g Managed) open(author []string, was v1alpha1.Gate, h identity.Holder, set approval.Set, m approval.Match, id string,
	verbs []v1alpha1.Verb, paths []string,
) Decision {
	next := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: verbs, At: approval.Stamp(g.Now),
		Claim: g.unfinished(was), Digest: id, Paths: paths, Reason: v1alpha1.GateReasonApproved,
		External: RecordExternal(g.MR.Represents()), Opened: was.Opened}
	if was.State == v1alpha1.GateOpen {
		next.At, next.Verbs, next.Paths, next.Unproven, next.Destroys = was.At, union(was.Verbs, verbs), was.Paths, was.Unproven, was.Destroys
	}
	if slices.Contains(verbs, v1alpha1.VerbDelete) {
		at := approval.Stamp(g.Now)
		next.DeleteAt = &at
		if g.ByFunction {
			next.Reason = v1alpha1.GateReasonDeletionApproved
		}
	}
	if onlyDelete(next) { // nothing is updated: what is recorded stays comparable
		next.Observed = was.Observed
	}
	var effect *identity.ClaimEffect
	var edits map[string]*string
	switch {
	case m.NeedsClaim():
		stored, has := h.State.Annotations[v1alpha1.AnnotationKeyClaims]
		claims, claim := set.Claims.Take(m, g.use(id), g.Now)
		if value := claims.String(); h.State.UID == g.MR.UID {
			edits = map[string]*string{v1alpha1.AnnotationKeyClaims: &value}
		} else {
			effect = &identity.ClaimEffect{Holder: h.State.Ref, Entry: m.Entry, Use: g.use(id), Stored: stored, HasStored: has, Value: value, ID: claim.ID}
		}
		if g.ByFunction {
			claim.ID = m.Entry.Content
		}
		next.Claim = withUse(next.Claim, claim.ID)
	case m.Claimed != nil:
		next.Claim = withUse(next.Claim, m.Claimed.ID)
	}
	d := g.stored(ActionOpen, author, next)
	d.Claim, d.Edits, d.Once, d.Approval = effect, edits, m.NeedsClaim(), m.Approval(id)
	return d
}

// deletion opens the gate for Delete where a holder has an approval of it: for the MR alone, or for all
// below the holder. What is to be left behind stays so, also where the holder's deletion is approved
// (KR-08-12).
func (g Managed) deletion(author []string, gate v1alpha1.Gate) (Decision, bool) {
	if !mask.Gives(author, v1alpha1.VerbDelete) || orphans(g.MR, author) || IsOpenFor(g.MR.Annotations, v1alpha1.VerbDelete) {
		return Decision{}, false
	}
	for _, h := range g.Holders {
		set := h.Decisions(g.Now)
		set.Approvals = slices.DeleteFunc(set.Approvals, func(e approval.Entry) bool { return ofRun(g.MR.GroupKind(), e) })
		if d, ok := g.deletionOf(author, gate, h, set); ok {
			return d, g.stopped([]v1alpha1.Verb{v1alpha1.VerbDelete}) == ""
		}
	}
	return Decision{}, false
}

func (g Managed) deletionOf(author []string, gate v1alpha1.Gate, h identity.Holder, set approval.Set) (Decision, bool) {
	verbs := []v1alpha1.Verb{v1alpha1.VerbDelete}
	digest := identity.DeletionDigest(g.owner().State, g.MR) // that of the refusal, wherever it is approved
	g.adoptPendingClaims(set.Claims, gate, digest.ID())
	if m, ok := set.Approved(g.query(h.State, verbs, digest)); ok && (m.Claimed == nil || !HasUse(gate, m.Claimed.ID)) {
		return g.open(author, gate, h, set, m, digest.ID(), verbs, nil), true
	}
	if h.State.UID == g.MR.UID || Retargeted(g.MR) { // the whole was approved with another external resource
		return Decision{}, false
	}
	// The deletion of the holder itself is one use for all MRs below it: it is
	// not claimed for one of them. It ends with the holder or, unused, with the
	// first of their openings that expires; the gate shows it by its content.
	whole, ok := g.wholeOf(h, set)
	if !ok {
		return Decision{}, false
	}
	q := g.query(h.State, verbs, whole.Digest)
	apiVersion, kind := h.State.ToAPIVersionAndKind()
	q.APIVersion, q.Kind, q.Name, q.Resource, q.Exact = apiVersion, kind, h.State.Name, "", true
	q.Lacks, q.Counted = nil, nil
	if _, ok := set.Approved(q); !ok { // before all that is below is read
		return Decision{}, false
	}
	others, stopped := together(g, h, set, whole)
	q.Lacks, q.Counted = g.poll(g.rules(verbs, others...), trace.Authors(h.State.Annotations, math.MaxInt64))
	m, ok := set.Approved(q)
	if stopped || !ok || ended(gate, m.Entry, set.Claims) {
		return Decision{}, false
	}
	once := m.Entry.Mode == v1alpha1.ApprovalOnce
	m.Entry.Mode = v1alpha1.ApprovalGeneration
	d := g.open(author, gate, h, set, m, whole.Digest.ID(), verbs, nil)
	if once {
		d.Gate.Claim = withUse(d.Gate.Claim, m.Entry.Content)
		d.Approval.Mode = v1alpha1.ApprovalOnce
	}
	return d, true
}

// wholeOf returns a holder's deletion where this managed resource is one of those that it
// deletes. An approval of it is about the managed resources below it at that time, and about none that
// joined since (KR-13-64).
func (g Managed) wholeOf(h identity.Holder, set approval.Set) (whole identity.Whole, ok bool) {
	if h.Whole == nil || !set.Exact() {
		return identity.Whole{}, false
	}
	whole, ok = h.Whole()
	return whole, ok && whole.Has(g.MR)
}

// owner returns the owner of the report, on which its approval is suggested: the parent where there is
// one on which approvals count, else the MR itself.
func (g Managed) owner() identity.Holder {
	for _, h := range g.Holders {
		if h.State.UID != g.MR.UID && !h.Unguarded {
			return h
		}
		if h.State.UID != g.MR.UID {
			break
		}
	}
	return identity.Holder{State: g.MR, Kind: g.Kind}
}

func (g Managed) drift(diff []change.Change) *v1alpha1.DriftSpec {
	owner := g.owner()
	digest := identity.DriftDigest(owner.State, g.MR, diff)
	intent, _ := trace.Intent(owner.State)
	out := &v1alpha1.DriftSpec{
		ID: digest.ID(), Digest: digest.Whole(), Relation: v1alpha1.RelationExternal, Parent: identity.ObjectReference(owner.State.Ref, owner.State.Generation, ""),
		Child:      identity.ObjectReference(g.MR.Ref, g.MR.Generation, g.MR.Annotations[v1alpha1.AnnotationKeyCompositionResourceName]),
		Difference: change.Fields(diff, identity.MaxReportFields), Intent: intent.Generation,
		Cause:             "an actor other than Crossplane changed the external resource behind " + identity.Describe(g.MR.Ref),
		SuggestedApproval: owner.ApproveCommand(digest.ID()),
	}
	switch moved := shownPaths(diff); {
	case g.Gone:
	case external.IsPlanned(diff[0].Path):
		out.Cause = "the plan of " + identity.Describe(g.MR.Ref) + " has changes that no accepted change brought"
	case moved != "":
		out.Cause = "the external resource behind " + identity.Describe(g.MR.Ref) + " changed while its gate was closed: its provider reports another " + moved
	}
	if g.Inert && !g.Gone { // an approval would change nothing (KR-08-46)
		out.Cause += "; " + inert
		out.SuggestedApproval = ""
	}
	return out
}

// inert is what the cause of a drift adds where an approval changes nothing.
const inert = "the provider makes no change, even if that is approved: it has applied this manifest before, and compares with that alone"

// Owner returns the owner of the report about an MR's external drift.
func (g Managed) Owner() *parent.State { return g.owner().State }

// ExplainDifference describes a difference in one line, for events.
func ExplainDifference(diff []v1alpha1.FieldDifference) string {
	parts := make([]string, 0, len(diff))
	for _, d := range diff {
		parts = append(parts, fmt.Sprintf("%s is %s, should be %s", d.Path, cmp.Or(d.Old, "absent"), cmp.Or(d.New, "absent")))
	}
	return strings.Join(parts, "; ")
}
