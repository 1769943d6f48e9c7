package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// drift as a node, with what was decided about it, else the command that approves it.
func (v view) drift(n *node, d *v1alpha1.Drift, s inspect.Ruling) {
	b := n.addf("%s, %s: %s", d.Name, v.age(inspect.Since(d)), summary(d))
	if len(d.Spec.Causes) > 0 {
		b.lines = append(b.lines, causeLines(d.Spec.Causes)...)
	} else if d.Spec.Cause != "" {
		b.lines = append(b.lines, "cause: "+d.Spec.Cause)
	}
	if len(d.Status.Votes) > 0 {
		b.lines = append(b.lines, "voted for"+approval.VotesText(d.Status.Votes))
	}
	if d.Status.Lacks != "" {
		b.lines = append(b.lines, "lacks: "+d.Status.Lacks)
	}
	for _, l := range rulingLines(d, s) {
		b.lines = append(b.lines, v.yellow(l))
	}
	if s.Rejected == nil {
		b.lines = append(b.lines, approveCommandLine(d.Namespace, d.Name))
	}
}

// state of a pending change in a word each; empty where nothing was decided about it (KR-12-30).
func state(d *v1alpha1.Drift, s inspect.Ruling) string {
	var out []string
	if s.Rejected != nil {
		out = append(out, "rejected")
	}
	if s.Frozen != nil {
		out = append(out, "frozen")
	}
	if s.Snoozed != nil || d.Status.Snoozed {
		out = append(out, "snoozed")
	}
	if n := len(d.Status.Votes); n > 0 {
		out = append(out, plural(n, "vote"))
	}
	return strings.Join(out, ", ")
}

// rulingLines are why a pending change is rejected, frozen or snoozed, and what ends that.
func rulingLines(d *v1alpha1.Drift, s inspect.Ruling) (out []string) {
	if r := s.Rejected; r != nil {
		out = append(out, fmt.Sprintf("rejected on %s: %s; to withdraw: %s", describeRef(d.Spec.Parent), r.Reason, withdrawCommandLine(d)))
	}
	if s.Frozen != nil {
		out = append(out, s.Frozen.Why()+"; approvals count once that ends: "+ownCommands(s.Frozen.End(), nil))
	}
	if z := s.Snoozed; z != nil {
		out = append(out, "snoozed until "+z.Expiry.UTC().Format(time.RFC3339)+attribution(z.User, z.Message, nil))
	}
	return out
}

// rulingKinds are the parts of a ruling with the label of their lines, in the order in which they are listed.
var rulingKinds = []struct {
	label string
	of    func(inspect.Ruling) inspect.Ruling
}{
	{"Rejected", func(s inspect.Ruling) inspect.Ruling { return inspect.Ruling{Rejected: s.Rejected} }},
	{"Frozen", func(s inspect.Ruling) inspect.Ruling { return inspect.Ruling{Frozen: s.Frozen} }},
	{"Snoozed", func(s inspect.Ruling) inspect.Ruling { return inspect.Ruling{Snoozed: s.Snoozed} }},
}

// isEdit reports whether a pending change reverts an edit by a user.
func isEdit(d *v1alpha1.Drift) bool {
	return slices.ContainsFunc(d.Spec.Causes, func(c v1alpha1.HopCause) bool { return c.Kind == v1alpha1.CauseEdit })
}

// withdrawCommandLine of the rejection of a pending change.
func withdrawCommandLine(d *v1alpha1.Drift) string {
	ns := ""
	if d.Namespace != "" {
		ns = " -n " + d.Namespace
	}
	return "kubectl kausality reject" + ns + " " + d.Name + " --withdraw"
}

// behind is a change that no approval lets pass, in one line.
func behind(b *inspect.Behind) string {
	return strings.ToLower(b.Reason) + ": " + summary(&v1alpha1.Drift{Spec: b.DriftSpec})
}

// labelled values of the changes of a cause, the ids of one value together, of at most maxLacks values.
func (g *causeGroup) labelled(label string, of func(*v1alpha1.Drift) string) (out []string) {
	var values []string
	ids := map[string][]string{}
	for i := range g.drifts {
		d := &g.drifts[i]
		if v := of(d); v != "" {
			if ids[v] == nil {
				values = append(values, v)
			}
			ids[v] = append(ids[v], d.Name)
		}
	}
	for _, v := range values[:min(len(values), maxLacks)] {
		names := slices.Clone(ids[v][:min(len(ids[v]), maxIDs)])
		if more := len(ids[v]) - maxIDs; more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		out = append(out, label+": "+v+", for "+strings.Join(names, ", "))
	}
	return out
}
