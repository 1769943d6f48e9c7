package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// GateAction is what the gate controller is to do with an MR.
type GateAction string

const (
	// GateNothing: it stands as it should.
	GateNothing GateAction = ""
	// GateRestore the author's policies: the mode is log, or nothing is to mask.
	GateRestore GateAction = "Restore"
	// GateInstall the closed mask for the first time.
	GateInstall GateAction = "Install"
	// GateOpenFor verbs that were approved.
	GateOpenFor GateAction = "Open"
	// GateClose what was opened: confirmed, or past its deadline.
	GateClose GateAction = "Close"
)

// Reasons of gate transitions, for events and the gate annotation.
const (
	GateReasonConfirmed = "Confirmed"
	GateReasonExpired   = "ExpiredUnconfirmed"
	GateReasonInstalled = "Installed"
	GateReasonApproved  = "Approved"
	GateReasonRestored  = "Restored"
)

// Holder of approvals for an MR: the MR itself, its XR, its Claim.
type Holder struct {
	State *parent.State
	Kind  Kind
}

// Gating is what decides about the gate of one MR (spec 8).
type Gating struct {
	MR   *parent.State
	Kind Kind
	Mode v1alpha1.Mode
	// Difference of the external resource; nil for none.
	Difference []change.Change
	// Comparable: the MR has both sides to compare.
	Comparable bool
	// Gone: the provider says that it does not exist.
	Gone bool
	// RequestedAt and HandledAt: the last reconcile request and its echo.
	RequestedAt, HandledAt string
	// Holders of approvals, nearest first: the MR, its XR, its Claim.
	Holders []Holder
	// Deadline after which an unconfirmed opening is closed.
	Deadline time.Duration
	CloseTo  []v1alpha1.Verb
	// User hash of the gate controller, for claims.
	User string
	Now  time.Time
}

// GateDecision of the gate controller.
type GateDecision struct {
	Action GateAction
	// Gate to store with the action.
	Gate v1alpha1.Gate
	// Policies to store with the action.
	Policies []string
	// Author's value to remember; nil removes what is remembered.
	Author []string
	// Claim to take before opening, on Claim.Holder; nil for none.
	Claim *ClaimEffect
	// Drift of the external resource that stands unapproved; nil for none.
	Drift *v1alpha1.DriftSpec
	// Again is when to look again; 0 for never.
	Again time.Duration
	// Why nothing is done, for people.
	Why string
}

// Decide about the gate of an MR as it is now.
func (g Gating) Decide() GateDecision {
	author := mask.AuthorOf(g.MR.Annotations, g.MR.ManagementPolicies)
	_, remembered := mask.ParseAuthor(g.MR.Annotations[v1alpha1.AnnotationKeyManagementPolicies])
	switch {
	case g.MR.Deleting():
		return GateDecision{Why: "it is being deleted"}
	case g.Mode != v1alpha1.ModeEnforce:
		return g.restore(author, remembered)
	case !mask.Maskable(author) || !mask.Gives(author, v1alpha1.VerbObserve):
		return g.restore(author, remembered)
	case !remembered:
		return g.install(author)
	}
	gate := mask.ParseGate(g.MR.Annotations)
	if d, ok := g.deletion(author, gate); ok {
		return d
	}
	if gate.State == v1alpha1.GateOpen {
		return g.whileOpen(author, gate)
	}
	return g.whileClosed(author, gate)
}

// restore the author's value. An opening by approval is closed first: the gate
// annotation is where it stands that the approval is used.
func (g Gating) restore(author []string, remembered bool) GateDecision {
	gate := mask.ParseGate(g.MR.Annotations)
	switch {
	case !remembered && gate.State == "":
		return GateDecision{Why: "it is not masked"}
	case gate.State == v1alpha1.GateOpen && gate.Claim != "":
		return g.close(author, gate, GateClose, GateReasonRestored)
	}
	return GateDecision{Action: GateRestore, Policies: author}
}

// install takes only MRs that are idle: Ready, and Synced with the last change
// seen, which the mask would cut off otherwise.
func (g Gating) install(author []string) GateDecision {
	seen := g.MR.Conditions["Synced"].ObservedGeneration
	if !g.MR.True("Synced") || !g.MR.True("Ready") || g.asyncPending() || g.MR.Paused || seen > 0 && seen < g.MR.Generation {
		return GateDecision{Why: "it is not idle yet", Again: 0}
	}
	return g.close(author, v1alpha1.Gate{Reason: GateReasonInstalled}, GateInstall, GateReasonInstalled)
}

func (g Gating) close(author []string, was v1alpha1.Gate, action GateAction, reason string) GateDecision {
	was.State, was.Reason, was.Generation, was.At = v1alpha1.GateClosed, reason, g.MR.Generation+1, approval.Stamp(g.Now)
	return GateDecision{Action: action, Gate: was, Author: author, Policies: Masked(author, was, g.CloseTo, g.Kind)}
}

// whileOpen: confirm and close, or wait for the deadline.
func (g Gating) whileOpen(author []string, gate v1alpha1.Gate) GateDecision {
	left := gate.At.Add(g.Deadline).Sub(g.Now)
	if slices.Contains(gate.Verbs, v1alpha1.VerbDelete) {
		switch {
		case left <= 0:
			return g.close(author, gate, GateClose, GateReasonExpired)
		case len(gate.Verbs) > 1 && g.unconfirmed(gate) == "":
			return g.narrow(author, gate)
		}
		return GateDecision{Why: "it is open for Delete", Again: left}
	}
	why := g.unconfirmed(gate)
	switch {
	case why == "":
		return g.close(author, gate, GateClose, GateReasonConfirmed)
	case left <= 0:
		return g.close(author, gate, GateClose, GateReasonExpired)
	}
	return GateDecision{Why: why, Again: left}
}

// narrow a gate to the Delete it is open for: what else it was opened for is
// confirmed.
func (g Gating) narrow(author []string, gate v1alpha1.Gate) GateDecision {
	gate.Verbs, gate.Paths = []v1alpha1.Verb{v1alpha1.VerbDelete}, nil
	gate.Reason, gate.Generation = GateReasonConfirmed, g.MR.Generation+1
	return GateDecision{Action: GateOpenFor, Gate: gate, Author: author, Policies: Masked(author, gate, g.CloseTo, g.Kind)}
}

// unconfirmed tells what is missing until the opened generation is confirmed.
func (g Gating) unconfirmed(gate v1alpha1.Gate) string {
	synced := g.MR.Conditions["Synced"]
	switch {
	case synced.Status != metav1.ConditionTrue:
		return "Synced is not True"
	case synced.ObservedGeneration > 0 && synced.ObservedGeneration < gate.Generation:
		return fmt.Sprintf("the provider has not seen generation %d yet", gate.Generation)
	case g.asyncPending():
		return "an asynchronous operation is pending or failed"
	case g.Kind.ReconcileRequests && g.RequestedAt != "" && g.HandledAt != g.RequestedAt:
		return "the provider has not handled a reconcile since"
	case synced.ObservedGeneration == 0 && !g.Kind.ReconcileRequests && !g.Comparable:
		return "the provider tells neither what it has seen nor what is there" // upjet can lose the generation for good
	case slices.Contains(gate.Verbs, v1alpha1.VerbCreate) && !g.MR.True("Ready"):
		return "it is not Ready yet"
	}
	if left := within(g.Difference, gate.Paths); len(left) > 0 {
		return "the external resource still differs: " + change.Summary(left, 5)
	}
	return ""
}

// asyncPending as upjet's conditions tell: an operation that goes on, or whose
// last one failed.
func (g Gating) asyncPending() bool {
	if c, ok := g.MR.Conditions["AsyncOperation"]; ok && c.Reason == "Ongoing" {
		return true
	}
	c, ok := g.MR.Conditions["LastAsyncOperation"]
	return ok && c.Status == metav1.ConditionFalse
}

func within(differences []change.Change, paths []string) []change.Change {
	if len(paths) == 0 {
		return differences
	}
	var out []change.Change
	for _, d := range differences {
		if slices.ContainsFunc(paths, func(p string) bool { return change.Under(d.Path, p) || change.Under(p, d.Path) }) {
			out = append(out, d)
		}
	}
	return out
}

// difference of the external resource that an approval would remove, and the
// verbs that takes.
func (g Gating) difference(author []string) ([]change.Change, []v1alpha1.Verb) {
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

// whileClosed: an external drift is reported until it is approved or gone.
func (g Gating) whileClosed(author []string, gate v1alpha1.Gate) GateDecision {
	diff, verbs := g.difference(author)
	if len(diff) == 0 || g.MR.Paused {
		return GateDecision{Why: "it is closed"}
	}
	id := g.driftID(g.owner().State, diff) // that of the report, wherever it is approved
	for _, h := range g.Holders {
		set := approval.Parse(h.State.Annotations)
		g.again(set.Claims, gate, id)
		m, ok := set.Approved(g.query(h.State, verbs, id))
		if !ok || m.Claimed != nil && uses(gate, m.Claimed.ID) {
			continue
		}
		return g.open(author, gate, h, set, m, id, verbs, change.Paths(diff))
	}
	return GateDecision{Drift: g.drift(diff), Why: "the external resource differs and nobody approved to change it"}
}

func (g Gating) query(holder *parent.State, verbs []v1alpha1.Verb, id string) approval.Query {
	intent, _ := intentOf(holder)
	apiVersion, kind := g.MR.ToAPIVersionAndKind()
	return approval.Query{
		APIVersion: apiVersion, Kind: kind, Name: g.MR.Name, Resource: g.MR.Annotations[v1alpha1.AnnotationKeyCompositionResourceName],
		Relation: v1alpha1.RelationExternal, Verbs: verbs, Digests: []string{id}, Intent: intent.Generation, Use: g.use(id),
	}
}

func (g Gating) use(id string) approval.Use {
	apiVersion, kind := g.MR.ToAPIVersionAndKind()
	return approval.Use{
		Child:  v1alpha1.ClaimChild{APIVersion: apiVersion, Kind: kind, Namespace: g.MR.Namespace, Name: g.MR.Name, UID: g.MR.UID},
		Digest: id, User: g.User, Relation: v1alpha1.RelationExternal,
	}
}

// again makes claims that were taken for this MR, and whose opening never
// landed, those of the use with an id: the difference may have become another
// one meanwhile, and what was claimed and not used is not lost.
func (g Gating) again(claims approval.Claims, gate v1alpha1.Gate, id string) {
	for i, c := range claims {
		if c.State == v1alpha1.ClaimPending && c.Relation == v1alpha1.RelationExternal && c.Child != nil && c.Child.UID == g.MR.UID && !uses(gate, c.ID) {
			use := g.use(id)
			claims[i].Child, claims[i].Digest, claims[i].User = &use.Child, id, g.User
		}
	}
}

// open the gate by an approval. A claim that was taken before and whose opening
// never landed is used again. The uses that the gate shows already and that are
// not finished stay with it.
func (g Gating) open(author []string, was v1alpha1.Gate, h Holder, set approval.Set, m approval.Match, id string, verbs []v1alpha1.Verb, paths []string) GateDecision {
	next := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: verbs, Generation: g.MR.Generation + 1, At: approval.Stamp(g.Now),
		Claim: g.unfinished(was), Digest: id, Paths: paths, Reason: GateReasonApproved}
	if was.State == v1alpha1.GateOpen {
		next.Verbs, next.Paths = union(was.Verbs, verbs), nil
	}
	d := GateDecision{Action: GateOpenFor, Author: author}
	switch {
	case m.NeedsClaim():
		stored, has := h.State.Annotations[v1alpha1.AnnotationKeyClaims]
		claims, claim := set.Claims.Take(m.Entry, g.use(id), g.Now)
		d.Claim = &ClaimEffect{Holder: h.State.Ref, Entry: m.Entry, Use: g.use(id), Stored: stored, HasStored: has, Value: claims.String(), ID: claim.ID}
		next.Claim = withUse(next.Claim, claim.ID)
	case m.Claimed != nil:
		next.Claim = withUse(next.Claim, m.Claimed.ID)
	}
	d.Gate, d.Policies = next, Masked(author, next, g.CloseTo, g.Kind)
	return d
}

// deletion approved on any holder, of the MR alone or of all below the holder,
// opens the gate for Delete.
func (g Gating) deletion(author []string, gate v1alpha1.Gate) (GateDecision, bool) {
	if !mask.Gives(author, v1alpha1.VerbDelete) || openFor(g.MR.Annotations, v1alpha1.VerbDelete) {
		return GateDecision{}, false
	}
	for _, h := range g.Holders {
		set := approval.Parse(h.State.Annotations)
		if d, ok := g.deletionOf(author, gate, h, set); ok {
			return d, true
		}
	}
	return GateDecision{}, false
}

func (g Gating) deletionOf(author []string, gate v1alpha1.Gate, h Holder, set approval.Set) (GateDecision, bool) {
	verbs := []v1alpha1.Verb{v1alpha1.VerbDelete}
	id := DeletionID(g.owner().State, g.MR) // that of the refusal, wherever it is approved
	g.again(set.Claims, gate, id)
	if m, ok := set.Approved(g.query(h.State, verbs, id)); ok && (m.Claimed == nil || !uses(gate, m.Claimed.ID)) {
		return g.open(author, gate, h, set, m, id, verbs, nil), true
	}
	if h.State.UID == g.MR.UID {
		return GateDecision{}, false
	}
	// The deletion of the holder itself is one use for all MRs below it: it is
	// not claimed for one of them. It ends with the holder or, unused, with the
	// first of their openings that expires; the gate shows it by its content.
	whole := DeletionID(h.State, h.State)
	q := g.query(h.State, verbs, whole)
	apiVersion, kind := h.State.ToAPIVersionAndKind()
	q.APIVersion, q.Kind, q.Name, q.Resource = apiVersion, kind, h.State.Name, ""
	m, ok := set.Approved(q)
	if !ok || expired(gate, whole, m.Entry, set.Claims) {
		return GateDecision{}, false
	}
	once := m.Entry.Mode == v1alpha1.ApprovalOnce
	m.Entry.Mode = v1alpha1.ApprovalGeneration
	d := g.open(author, gate, h, set, m, whole, verbs, nil)
	if once {
		d.Gate.Claim = withUse(d.Gate.Claim, m.Entry.Content)
	}
	return d, true
}

func (g Gating) driftID(holder *parent.State, diff []change.Change) string {
	return change.ID(v1alpha1.RelationExternal, string(Update), parentIdentity(holder), stateIdentity(g.MR), diff)
}

// owner of the report: the XR where there is one, else the MR itself.
func (g Gating) owner() Holder {
	for _, h := range g.Holders {
		if h.State.UID != g.MR.UID {
			return h
		}
	}
	return Holder{State: g.MR, Kind: g.Kind}
}

func (g Gating) drift(diff []change.Change) *v1alpha1.DriftSpec {
	owner := g.owner()
	id := g.driftID(owner.State, diff)
	intent, _ := intentOf(owner.State)
	return &v1alpha1.DriftSpec{
		ID: id, Relation: v1alpha1.RelationExternal, Parent: objectReference(owner.State.Ref, owner.State.Generation, ""),
		Child:      objectReference(g.MR.Ref, g.MR.Generation, g.MR.Annotations[v1alpha1.AnnotationKeyCompositionResourceName]),
		Difference: change.Fields(diff, maxReportFields, false), Intent: intent.Generation,
		Cause:             "somebody or something changed the external resource behind " + describe(g.MR.Ref),
		SuggestedApproval: Approve(owner.State.Ref, owner.Kind, id),
	}
}

// Owner of the report about an MR's external drift.
func (g Gating) Owner() *parent.State { return g.owner().State }

// Explain a difference in one line, for events.
func Explain(diff []v1alpha1.FieldDifference) string {
	parts := make([]string, 0, len(diff))
	for _, d := range diff {
		parts = append(parts, fmt.Sprintf("%s is %s, should be %s", d.Path, or(d.Old, "absent"), or(d.New, "absent")))
	}
	return strings.Join(parts, "; ")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
