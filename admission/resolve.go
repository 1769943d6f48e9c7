package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Resolved tells why a drift of a child object no longer stands, "" while it
// does. p and child are nil where they do not exist. External drifts are
// resolved by the gate, which sees the difference itself.
func Resolved(d *v1alpha1.Drift, p, child *parent.State) string {
	if p == nil {
		return "the parent is gone"
	}
	if d.Spec.Operation != string(Create) && d.Spec.Child.Name != "" && child == nil {
		return "the child was deleted"
	}
	if child != nil {
		if own := trace.Of(child.Annotations).Own(); own != nil && own.Approval != nil && own.Approval.Digest == d.Spec.ID {
			return "it was approved"
		}
	}
	if intent, _ := trace.Intent(p); d.Spec.Intent > 0 && intent.Generation > d.Spec.Intent {
		return "the parent has a new intent"
	}
	for _, c := range approval.ParseClaims(p.Annotations[v1alpha1.AnnotationKeyClaims]) {
		if c.Digest == d.Spec.ID && c.State == v1alpha1.ClaimUsed && d.Status.Since != nil && !c.At.Before(d.Status.Since) {
			return "it was approved"
		}
	}
	if withdrawn(d, p) {
		return "it is no longer attempted"
	}
	return ""
}

// withdrawn reports whether Crossplane composed everything again, after it was
// refused this.
func withdrawn(d *v1alpha1.Drift, p *parent.State) bool {
	if p.Role != parent.RoleComposite || d.Status.LastSeen == nil {
		return false
	}
	c := p.Conditions["Synced"]
	return c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(d.Status.LastSeen.Time)
}
