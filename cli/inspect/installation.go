package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/heartbeat"
)

// Weakness of an installation: what it does not protect, whatever the objects are.
type Weakness string

const (
	// WeakClients: the webhook answers clients that are not known to be the API server.
	WeakClients Weakness = "ClientCertificates"
	// WeakOutage: changes are allowed while the webhook does not answer.
	WeakOutage Weakness = "FailOpen"
	// WeakApprovers: there are ApprovalRules, and approver RBAC does not protect what they rest on.
	WeakApprovers Weakness = "ApproverRBAC"
)

// Finding is a weakness of the installation, or one of which it is unknown whether it has it (KR-12-29).
type Finding struct {
	Weakness Weakness `json:"weakness"`
	// Unknown: the user may not read it, or no replica of the webhook reports it.
	Unknown bool `json:"unknown,omitempty"`
	// Partly: something else restricts it, so that it alone is no reason for the exit code.
	Partly bool `json:"partly,omitempty"`
	// Message in sentences: what is not protected, why, and what to do.
	Message string `json:"message"`
}

// installation returns the weaknesses of the installation, in the order of their declarations. What cannot be read is unknown, and
// no error.
func (i *Inspector) installation(ctx context.Context) []Finding {
	protection, err := i.Direct.Protection(ctx)
	var out []Finding
	for _, f := range []*Finding{clients(ctx, i.Direct, protection, err), i.failOpen(), approvers(ctx, i.Direct, protection, err)} {
		if f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// unknownFinding returns a finding for a weakness that could not be checked.
func unknownFinding(w Weakness, format string, args ...any) *Finding {
	return &Finding{Weakness: w, Unknown: true, Message: fmt.Sprintf(format, args...)}
}

const (
	demandClients = "Set webhook.clientCASecretName (--client-ca-file), or networkPolicy.apiServers to the addresses of the API servers."
	seeWebhook    = "kubectl -n kausality-system get deployment kausality-webhook -o jsonpath='{.spec.template.spec.containers[0].args}'"
	seeReach      = "kubectl -n kausality-system get networkpolicy kausality-webhook -o yaml"
)

// clients returns a finding about the clients that the webhook answers; nil if it demands certificates.
func clients(ctx context.Context, d *cluster.Direct, p heartbeat.Protection, unknown error) *Finding {
	if unknown != nil {
		return unknownFinding(WeakClients, "Whether the webhook demands client certificates is unknown: %v. Run: %s", unknown, seeWebhook)
	}
	if p.ClientCertificates {
		return nil
	}
	f := &Finding{Weakness: WeakClients}
	const answers = "The webhook answers clients without a certificate"
	switch reach, err := cluster.ReachOf(ctx, d.Dynamic); {
	case err != nil:
		f.Message = fmt.Sprintf("%s. Whether a NetworkPolicy restricts who reaches it is unknown: %v. Run: %s. %s", answers, err, seeReach, demandClients)
	case reach == cluster.ReachListed:
		f.Partly = true
		f.Message = answers + ". The NetworkPolicy kausality-webhook lists who reaches it, which holds if the network of the cluster enforces it. Run: " + seeReach
	case reach == cluster.ReachAny:
		f.Message = answers + ", and the NetworkPolicy kausality-webhook lets every address reach it. " + demandClients
	default:
		f.Message = answers + ", and there is no NetworkPolicy kausality-webhook. " + demandClients
	}
	return f
}

// failOpen returns a finding if changes are allowed during an outage of the webhook; nil if all are refused, or nothing is guarded.
func (i *Inspector) failOpen() *Finding {
	if i.unread != nil {
		return unknownFinding(WeakOutage, "Whether changes are allowed while the webhook does not answer is unknown: %v. Run: "+
			"kubectl get mutatingwebhookconfiguration kausality -o yaml", i.unread)
	}
	open := i.Direct.Scope.FailOpen()
	if len(open) == 0 {
		return nil
	}
	return &Finding{Weakness: WeakOutage, Message: "While the webhook does not answer, changes are allowed without a decision (failurePolicy Ignore) of " +
		listed(open) + ". Where they are to be refused, set mode: enforce in a Kausality policy."}
}

// approvers returns a finding if the right to approve is not checked although ApprovalRules exist; nil otherwise.
func approvers(ctx context.Context, d *cluster.Direct, p heartbeat.Protection, unknown error) *Finding {
	if unknown == nil && p.ApproverRBAC == admission.ApproverRBACOn {
		return nil
	}
	f := &Finding{Weakness: WeakApprovers}
	rules, err := cluster.ApprovalRules(ctx, d.Dynamic)
	switch {
	case err != nil:
		return unknownFinding(WeakApprovers, "Whether there are ApprovalRules without approver RBAC is unknown: %v. Run: kubectl get approvalrules", err)
	case len(rules) == 0:
		return nil
	case unknown != nil:
		return unknownFinding(WeakApprovers, "Whether approver RBAC is on, beside ApprovalRules (%s), is unknown: %v. Run: %s", listed(rules), unknown, seeWebhook)
	case p.ApproverRBAC == admission.ApproverRBACResource:
		f.Message = "There are ApprovalRules (" + listed(rules) + "), and approver RBAC accepts the verb approve on the resource itself, which " +
			"Crossplane's roles grant to all editors. Set webhook.approverRBAC (--approver-rbac) to true; kubectl kausality approvers --lost lists who loses the right."
	default:
		f.Message = "There are ApprovalRules (" + listed(rules) + "), and approver RBAC is off: what no rule is about, all who may write an object may " +
			"approve, reject, freeze and set the mode of. Set webhook.approverRBAC (--approver-rbac) to true."
	}
	return f
}

// listed names, the first MaxExamples of them.
func listed(names []string) string {
	if more := len(names) - MaxExamples; more > 0 {
		return strings.Join(names[:MaxExamples], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
