package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// maxShown bounds the lists of an explanation.
const maxShown = 10

// explanation as a tree.
func (c *cli) explanation(e *inspect.Explanation) *node {
	title := c.paint.bold(describeRef(e.Object))
	if r := roles[e.Role]; r != "" {
		title += ", " + r
	}
	top := &node{text: title}
	if !e.Guarded {
		top.add(c.paint.yellow("Not guarded: " + e.Unguarded + ". The webhook is not asked; what follows is what it would say"))
	}
	for _, o := range e.Outcomes {
		c.outcome(top, o)
	}
	top.addf("Mode: %s, from %s", e.Mode.Mode, e.Mode.From)
	if e.Parent != nil {
		c.parent(top.add("Parent: "+c.paint.bold(describeRef(e.Parent.Object))), e.Parent)
	} else {
		top.add("Parent: none; whoever changes it starts a chain of causes")
	}
	if e.Own != nil {
		c.parent(top.add("As a parent of others:"), e.Own)
	}
	if e.Gate != nil {
		c.gate(top, e.Gate)
	}
	c.drifts(top, e.Drifts)
	return top
}

var attempts = map[inspect.Attempt]string{
	inspect.AttemptController: "If its controller changes it", inspect.AttemptYou: "If you change it", inspect.AttemptDelete: "If you delete it",
}

// reasons of permissions, as clauses.
var reasons = map[admission.Reason]string{
	admission.ReasonExpected:       "its parent has not settled since its last intent",
	admission.ReasonInitializing:   "its parent is still initializing",
	admission.ReasonNewOrigin:      "somebody who is not its controller starts a new chain of causes",
	admission.ReasonNoParent:       "it has no controlling parent, so this starts a new chain of causes",
	admission.ReasonSelf:           "its own controller writes to it",
	admission.ReasonApproved:       "it is approved",
	admission.ReasonFollowsWorld:   "built in: such children follow the world and not a spec",
	admission.ReasonParentDeleted:  "its parent is being deleted",
	admission.ReasonBeingDeleted:   "it is being deleted",
	admission.ReasonNoChange:       "the desired state stays as it is",
	admission.ReasonUndetermined:   "nobody can tell who its parent's controller is, and it is let through",
	admission.ReasonDriftLogged:    "nobody asked for it, and mode log lets it pass with a warning and a report",
	admission.ReasonParentNotFound: "its parent does not exist",
}

// verdict for people, with its reason.
func (c *cli) verdict(allowed bool, reason admission.Reason) string {
	word := c.paint.green("allowed")
	switch {
	case !allowed:
		word = c.paint.red("refused")
	case reason == admission.ReasonDriftLogged:
		word = c.paint.yellow("allowed, with a warning")
	}
	return fmt.Sprintf("%s (%s)", word, reason)
}

func (c *cli) outcome(top *node, o inspect.Outcome) {
	title := attempts[o.Attempt]
	if o.User != "" {
		title += " (" + o.User + ")"
	}
	n := top.addf("%s: %s", title, c.verdict(o.Allowed, o.Reason))
	why := o.Why
	if why == "" {
		why = reasons[o.Reason]
	}
	if why != "" {
		n.lines = append(n.lines, why)
	}
	for _, f := range o.Difference {
		n.lines = append(n.lines, field(f))
	}
	for _, w := range o.Warnings {
		n.lines = append(n.lines, c.paint.yellow("warning: "+w))
	}
	if o.Suggestion != "" && !o.Allowed {
		n.lines = append(n.lines, "To approve it: "+o.Suggestion)
	}
}

// field of a difference in one line.
func field(f v1alpha1.FieldDifference) string {
	switch {
	case f.Old == "" && f.New == "":
		return f.Path
	case f.Old == "":
		return fmt.Sprintf("%s: set to %s", f.Path, f.New)
	case f.New == "":
		return fmt.Sprintf("%s: %s removed", f.Path, f.Old)
	}
	return fmt.Sprintf("%s: %s → %s", f.Path, f.Old, f.New)
}

func (c *cli) parent(n *node, p *inspect.Parent) {
	if p.Missing {
		n.add(c.paint.red("does not exist"))
		return
	}
	h := p.Intent
	n.addf("last intent: generation %d, by %s%s", h.Generation, c.who(h), c.when(h.Timestamp, false))
	switch {
	case p.Settled:
		n.addf("settled at generation %d: what its controller changes from now on nobody asked for", p.SettledGeneration)
	case p.SettledGeneration > 0:
		n.addf("settled at generation %d, not at %d yet: %s", p.SettledGeneration, h.Generation, p.Unsettled)
	default:
		n.addf("never settled: %s", p.Unsettled)
	}
	n.addf("phase: %s", p.Phase)
	if p.Revision != "" {
		n.addf("composition revision: %s", p.Revision)
	}
	if f := p.Frozen; f != nil {
		n.add(c.paint.red("frozen") + said(f.User, f.Message, f.At))
	}
	if s := p.Snoozed; s != nil {
		n.addf("snoozed until %s%s", s.Expiry.UTC().Format(time.RFC3339), said(s.User, s.Message, nil))
	}
	for _, r := range p.Rejections {
		n.addf("%s %s: %s", c.paint.red("rejects"), wanted(r.Kind, r.Name, r.Resource), r.Reason)
	}
	for _, a := range p.Approvals {
		n.add(c.approval(a))
	}
	for _, w := range p.Warnings {
		n.add(c.paint.yellow("warning: " + w))
	}
}

// said by whom, why, when, as the end of a line; nil is a time that is not known.
func said(user, message string, at *metav1.Time) string {
	out := ""
	if user != "" {
		out += " by " + user
	}
	if !at.IsZero() {
		out += " at " + at.UTC().Format(time.RFC3339)
	}
	if message != "" {
		out += ": " + message
	}
	return out
}

func wanted(kind, name, resource string) string {
	switch {
	case resource != "":
		return kind + " " + resource + " of the Composition"
	case name == "*":
		return "every " + kind
	}
	return kind + " " + name
}

func (c *cli) approval(a inspect.Approval) string {
	out := "approves "
	if a.Relation == v1alpha1.RelationExternal {
		verbs := make([]string, 0, len(a.Verbs))
		for _, v := range a.Verbs {
			verbs = append(verbs, string(v))
		}
		out += "external " + strings.Join(verbs, ", ") + " of "
	}
	switch {
	case a.Kind != "":
		out += wanted(a.Kind, a.Name, a.Resource)
		if a.Digest != "" {
			out += ", difference " + a.Digest
		}
	default:
		out += "difference " + a.Digest
	}
	out += ", " + string(a.Mode)
	switch a.State {
	case v1alpha1.ClaimPending:
		out += " (in use)"
	case v1alpha1.ClaimUsed:
		out += c.paint.yellow(" (used up)")
	case v1alpha1.ClaimPruned:
		out += c.paint.yellow(" (out of date)")
	}
	return out
}

func (c *cli) gate(top *node, g *inspect.Gate) {
	state := string(g.State)
	if state == "" {
		state = "none"
	}
	title := "Gate: " + c.paint.bold(state)
	if g.Transition.Reason != "" {
		title += " (" + g.Transition.Reason + ")"
	}
	n := top.add(title)
	n.addf("the provider may: %s; the author gave: %s", list(g.Policies), list(g.Author))
	if g.State == v1alpha1.GateOpen {
		n.addf("open for %s since %s", verbs(g.Transition.Verbs), g.Transition.At.UTC().Format(time.RFC3339))
	}
	switch {
	case g.Next != "":
		n.addf("next: %s", next(g.Next))
	case g.Why != "" && g.State != v1alpha1.GateClosed || len(g.Difference) > 0:
		n.add(g.Why)
	}
	for _, f := range g.Difference {
		n.add(c.paint.yellow("external drift: ") + field(f))
	}
	if g.Gone {
		n.add(c.paint.yellow("the external resource is gone"))
	}
	if g.Blind != "" {
		n.add(c.paint.yellow("external drift unknown: " + g.Blind.Why()))
	}
}

func next(a gating.Action) string {
	switch a {
	case gating.ActionRestore:
		return "the author's policies are restored"
	case gating.ActionInstall:
		return "it is closed for the first time"
	case gating.ActionOpen:
		return "it is opened by an approval"
	case gating.ActionClose:
		return "it is closed"
	}
	return string(a)
}

func list(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}

func verbs(values []v1alpha1.Verb) string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		out = append(out, string(v))
	}
	return list(out)
}

// drifts that stand, and the last that was resolved.
func (c *cli) drifts(top *node, all []v1alpha1.Drift) {
	open := slices.DeleteFunc(slices.Clone(all), func(d v1alpha1.Drift) bool { return !inspect.Open(&d) })
	closed := all[len(open):]
	if len(open) > 0 {
		n := top.add(c.paint.bold("Waiting for approval:"))
		for i := range open {
			if i == maxShown {
				n.addf("and %d more", len(open)-maxShown)
				break
			}
			c.drift(n, &open[i])
		}
	}
	if len(closed) > 0 {
		d := &closed[0]
		top.addf("Last drift that was resolved: %s, %s; %s", d.Name, summary(d), d.Status.Resolution)
	}
}

func (c *cli) drift(n *node, d *v1alpha1.Drift) {
	b := n.addf("%s, %s: %s", d.Name, c.age(inspect.Since(d)), summary(d))
	if d.Spec.Cause != "" {
		b.lines = append(b.lines, "cause: "+d.Spec.Cause)
	}
	b.lines = append(b.lines, "kubectl kausality approve"+namespaceFlag(d.Namespace)+" "+d.Name)
}

func namespaceFlag(ns string) string {
	if ns == "" {
		return ""
	}
	return " -n " + ns
}

// operations of drifts for people.
var operations = map[string]string{
	string(admission.Create): "create", string(admission.Update): "change", string(admission.Delete): "delete",
}

// summary of a drift in one line: of what, what.
func summary(d *v1alpha1.Drift) string {
	verb, object := operations[d.Spec.Operation], describeRef(d.Spec.Child)
	switch {
	case d.Spec.Relation == v1alpha1.RelationExternal && d.Spec.Operation == string(admission.Delete):
		return "delete " + object + " and what it stands for"
	case d.Spec.Relation == v1alpha1.RelationExternal:
		verb, object = "change", "what "+object+" stands for"
	}
	out := verb + " " + object
	if len(d.Spec.Difference) == 0 {
		return out
	}
	return out + ": " + differences(d.Spec.Difference, 3)
}

func differences(all []v1alpha1.FieldDifference, most int) string {
	parts := make([]string, 0, most)
	for i, f := range all {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		parts = append(parts, field(f))
	}
	return strings.Join(parts, "; ")
}
