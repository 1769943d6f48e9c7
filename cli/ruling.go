package cli

import (
	"strings"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// drift adds a Drift as a node, with what was decided about it, else the command that approves it.
func (v view) drift(n *node, d *v1alpha1.Drift, s channel.Ruling) {
	b := n.addf("%s, %s: %s", d.Name, v.age(channel.Since(d)), channel.Summary(d))
	if len(d.Spec.Causes) > 0 {
		b.lines = append(b.lines, channel.CauseLines(d.Spec.Causes)...)
	} else if d.Spec.Cause != "" {
		b.lines = append(b.lines, "cause: "+d.Spec.Cause)
	}
	if len(d.Status.Votes) > 0 {
		b.lines = append(b.lines, "voted for"+approval.VotesText(d.Status.Votes))
	}
	if d.Status.Lacks != "" {
		b.lines = append(b.lines, "lacks: "+d.Status.Lacks)
	}
	b.lines = append(b.lines, lists.Map(channel.RulingLines(d, s), v.yellow)...)
	if s.Rejected == nil {
		b.lines = append(b.lines, channel.ApproveCommand(d.Namespace, d.Name))
	}
}

// behind returns a change that no approval lets pass, in one line.
func behind(b *inspect.Behind) string {
	return strings.ToLower(b.Reason) + ": " + channel.Summary(&v1alpha1.Drift{Spec: b.DriftSpec})
}
