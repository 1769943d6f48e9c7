package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// maxShown bounds the lists of an explanation and of a preview.
const maxShown = 10

// explanation returns the explanation as a tree.
func (v view) explanation(e *inspect.Explanation) *node {
	title := v.bold(channel.Describe(e.Object)) + channel.Part(", ", roles[e.Role], "")
	if e.Graph != nil {
		title += ", graph"
	}
	top := &node{text: title}
	for _, u := range e.Unread {
		top.add(v.yellow("Not read: " + u))
	}
	if e.Undecided != "" {
		top.add(v.yellow("Unknown what would happen to a change of it: " + e.Undecided))
	} else if !e.Guarded {
		top.add(v.yellow("Not guarded: " + e.Unguarded + ". The webhook does not see its changes; the following is what it would decide"))
	}
	if e.Unanswered != "" {
		top.add(v.red("The webhook does not answer: "+e.Unanswered) + ". What follows is what it would decide; now all changes of it are " + during[e.DuringOutage])
	}
	for _, o := range e.Outcomes {
		v.outcome(top, o, openOf(slices.Clone(e.Drifts)))
	}
	if h := e.Last; h != nil {
		top.addf("Last change: generation %d, by %s%s", h.Generation, v.who(*h), v.when(h.Timestamp, false)).lines = v.hopLines(*h)
	}
	if e.Undecided == "" {
		v.mode(top, e)
	}
	if e.Parent != nil {
		v.parent(top.add("Parent: "+v.bold(channel.Describe(e.Parent.Object))), e.Parent)
	} else {
		top.add("Parent: none; a change of it starts a new chain of causes")
	}
	if e.Own != nil {
		v.parent(top.add("As a parent of others:"), e.Own)
	}
	graph(v, top, e)
	if e.Gate != nil {
		v.gate(top, e.Gate)
	}
	if e.Absent != "" {
		top.add(v.yellow(e.Absent))
	}
	v.drifts(top, e)
	return top
}

// mode adds the mode of an object as a node.
func (v view) mode(top *node, e *inspect.Explanation) {
	mode := top.addf("Mode: %s, from %s", e.Mode.Mode, e.Mode.From)
	if e.Guarded && e.Mode.Mode == v1alpha1.ModeEnforce && e.DuringOutage == inspect.OutageAllowed {
		mode.add(v.yellow("it fails open: while the webhook does not answer, all changes are allowed"))
	}
}

// during an outage, as an adjective; allowed where the webhook sees nothing of it.
var during = map[inspect.Outage]string{"": "allowed", inspect.OutageAllowed: "allowed", inspect.OutageRefused: "refused"}

var attempts = map[inspect.Attempt]string{
	inspect.AttemptController: "If its controller changes it", inspect.AttemptYou: "If you change it", inspect.AttemptDelete: "If you delete it",
}

// reasons of permissions as clauses, where the decision has no explanation of
// its own.
var reasons = map[outcome.Reason]string{
	outcome.ReasonExpected:       "its parent has not settled since its last intent",
	outcome.ReasonInitializing:   "its parent is still initializing",
	outcome.ReasonNewOrigin:      "a user other than its controller starts a new chain of causes",
	outcome.ReasonNoParent:       "it has no controlling parent, so this starts a new chain of causes",
	outcome.ReasonSelf:           "its own controller writes to it",
	outcome.ReasonApproved:       "it is approved",
	outcome.ReasonSelfHealing:    "built in: such children follow the state of the cluster instead of a spec",
	outcome.ReasonParentDeleted:  "its parent is being deleted",
	outcome.ReasonBeingDeleted:   "it is being deleted",
	outcome.ReasonNoChange:       "the desired state is unchanged",
	outcome.ReasonUndetermined:   "the parent's controller could not be identified; allowed",
	outcome.ReasonDriftLogged:    "it is unrequested, and mode log allows it with a warning and a report",
	outcome.ReasonWindowClosed:   "an ApprovalRule lets such changes pass in windows of time, which are closed",
	outcome.ReasonParentNotFound: "its parent does not exist",
}

// outcome adds the outcome of one attempt as a node; pending are the changes that wait.
func (v view) outcome(top *node, o inspect.Outcome, pending []v1alpha1.Drift) {
	n := top.addf("%s%s: %s", attempts[o.Attempt], channel.Part(" (", o.User, ")"), v.verdict(o.Allowed, o.Reason))
	if why := cmp.Or(o.Why, reasons[o.Reason]); why != "" {
		n.lines = append(n.lines, channel.OwnCommands(why, pending))
	}
	n.lines = append(n.lines, lists.Map(o.Difference, channel.Field)...)
	n.lines = append(n.lines, needs(o.Needs)...)
	n.lines = append(n.lines, lists.Map(o.Warnings, func(w string) string { return v.yellow("warning: " + channel.OwnCommands(w, pending)) })...)
	if o.Suggestion != "" && !o.Allowed {
		n.lines = append(n.lines, "To approve it: "+channel.OwnCommands(o.Suggestion, pending))
	}
}

// needs returns the needs of several ApprovalRules, a line each (KR-14-19); one alone is in the reason.
func needs(all []allowance.Need) []string {
	if len(all) < 2 {
		return nil
	}
	return append([]string{fmt.Sprintf("%d ApprovalRules match it, and all must be met:", len(all))},
		lists.Map(all, func(n allowance.Need) string { return "  " + n.Rule + ": " + cmp.Or(n.Lacks, "met") })...)
}

// parent adds a parent as the cause of changes of its children, as nodes.
func (v view) parent(n *node, p *inspect.Parent) {
	if p.Missing {
		n.add(v.red("does not exist"))
		return
	}
	h := p.Intent
	n.addf("last intent: generation %d, by %s%s", h.Generation, v.who(h), v.when(h.Timestamp, false))
	switch {
	case p.Settled:
		n.addf("settled at generation %d: further controller changes are drift", p.SettledGeneration)
	case p.SettledGeneration > 0:
		n.addf("settled at generation %d, not at %d yet: %s", p.SettledGeneration, h.Generation, p.Unsettled)
	default:
		n.addf("never settled: %s", p.Unsettled)
	}
	n.addf("phase: %s", p.Phase)
	if p.Revision != "" {
		n.addf("composition revision: %s", p.Revision)
	}
	if c := p.GraphRevision; c != nil {
		n.addf("graph revision: %s%s", c.Name, channel.AuthorOf(*c))
	}
	if f := p.Frozen; f != nil {
		n.add(v.red("frozen") + channel.Part(" with ", p.FrozenWith, "") + attribution(f.User, f.Message, f.At))
	}
	if s := p.Snoozed; s != nil {
		n.addf("snoozed until %s%s", s.Expiry.UTC().Format(time.RFC3339), attribution(s.User, s.Message, nil))
	}
	for _, r := range p.Rejections {
		n.addf("%s %s: %s", v.red("rejects"), matched(r.Kind, r.Name, r.Resource), r.Reason)
	}
	for _, a := range p.Approvals {
		n.add(v.approval(a))
	}
	for _, w := range p.Warnings {
		n.add(v.yellow("warning: " + w))
	}
}

// approval returns the approval in one line, with the state of its claim.
func (v view) approval(a inspect.Approval) string {
	out := "approves "
	if a.Relation == v1alpha1.RelationExternal {
		out += "external " + listVerbs(a.Verbs) + " of "
	}
	switch {
	case a.Kind != "":
		out += matched(a.Kind, a.Name, a.Resource) + channel.Part(", difference ", a.Digest, "")
	default:
		out += "difference " + a.Digest
	}
	out += ", " + string(a.Mode)
	out += approval.VotesText(a.By)
	switch a.State {
	case v1alpha1.ClaimPending:
		out += " (in use)"
	case v1alpha1.ClaimUsed:
		out += v.yellow(" (used up)")
	case v1alpha1.ClaimPruned:
		out += v.yellow(" (out of date)")
	}
	return out
}

// gate adds the gate as a node: its state, policies, next transition and external drift.
func (v view) gate(top *node, g *inspect.Gate) {
	n := top.add("Gate: " + v.bold(cmp.Or(string(g.State), "none")) + channel.Part(" (", g.Transition.Reason, ")"))
	if g.Unsupported {
		n.add(v.yellow(g.Why))
		return
	}
	n.addf("the provider may: %s; the author's policies: %s", listOf(g.Policies), listOf(g.Author))
	if g.State == v1alpha1.GateOpen {
		destroys := map[bool]string{true: "; its run may destroy what it manages, in part"}[g.Transition.Destroys]
		n.addf("open for %s since %s%s", listVerbs(g.Transition.Verbs), g.Transition.At.UTC().Format(time.RFC3339), destroys)
	}
	switch {
	case g.Next != "":
		n.addf("next: %s", cmp.Or(nextActions[g.Next], string(g.Next)))
	case g.Why != "" && g.State != v1alpha1.GateClosed || len(g.Difference) > 0:
		n.add(g.Why)
	}
	for _, f := range g.Difference {
		n.add(v.yellow("external drift: ") + channel.Field(f))
	}
	if g.Withheld {
		n.add("mode log: in mode enforce the gate would hold that until it is approved")
	}
	if g.Gone {
		n.add(v.yellow("the external resource does not exist any more"))
	}
	if g.Blind != "" {
		n.add(v.yellow("external drift unknown: " + g.Blind.Why()))
	}
}

// nextActions of the gate as clauses.
var nextActions = map[gating.Action]string{
	gating.ActionRestore: "the author's policies are restored",
	gating.ActionInstall: "it is closed for the first time",
	gating.ActionOpen:    "it is opened by an approval",
	gating.ActionClose:   "it is closed",
	gating.ActionRecord:  "what its provider reports is recorded",
}

// drifts adds the Drifts that are open, what waits behind a freeze or a rejection, and the last that was resolved.
func (v view) drifts(top *node, e *inspect.Explanation) {
	all := e.Drifts // the open ones first
	open := slices.DeleteFunc(slices.Clone(all), func(d v1alpha1.Drift) bool { return !channel.Open(&d) })
	resolved := all[len(open):]
	if len(open) > 0 {
		n := top.add(v.bold("Waiting for approval:"))
		for i := range open {
			if i == maxShown {
				n.addf("and %d more", len(open)-maxShown)
				break
			}
			v.drift(n, &open[i], e.Rulings[open[i].Name])
		}
	}
	if len(e.Behind) > 0 {
		n := top.add(v.bold("Held, and not to be approved meanwhile:"))
		for i := range e.Behind[:min(len(e.Behind), maxShown)] {
			n.add(behind(&e.Behind[i]))
		}
		if more := len(e.Behind) - maxShown; more > 0 {
			n.addf("and %d more", more)
		}
	}
	if len(resolved) > 0 {
		d := &resolved[0]
		top.addf("Last resolved drift: %s, %s; %s", d.Name, channel.Summary(d), d.Status.Resolution+approval.ByText(d.Status.Approval))
	}
}

// graph adds a graph as the cause of changes of its instances' children, as a node; nothing for another object.
func graph(v view, top *node, e *inspect.Explanation) {
	if e.Graph == nil {
		return
	}
	n := top.add("Graph: kro carries out its changes for all instances at once; on those that have settled they are drift")
	for _, g := range channel.ByCause(e.Graph.Drifts) {
		card := channel.CardOf(g, func(*v1alpha1.Drift) channel.Ruling { return channel.Ruling{} }, " -A")
		n.add(v.bold("Waiting for approval: ")+card.Counts, card.Causes...)
	}
	if len(e.Graph.Drifts) == 0 {
		n.add("nothing waits for approval because of it")
		return
	}
	n.addf("to list them, with the commands that approve them: kubectl kausality pending %s",
		slashed(schema.FromAPIVersionAndKind(e.Object.APIVersion, e.Object.Kind), e.Object.Name))
}

// refused reports whether the change of the controller would be.
func refused(e *inspect.Explanation) bool {
	return slices.ContainsFunc(e.Outcomes, func(o inspect.Outcome) bool { return o.Attempt == inspect.AttemptController && !o.Allowed })
}
