package settling

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Resolved returns why a drift of a child is over, as a clause; "" while it is not. p
// is nil for a parent that does not exist, and so is the result of child, which is
// called only where neither the parent's claims nor its intent decide.
// External drifts are resolved by the gate, which sees the difference itself (KR-10-05).
func Resolved(d *v1alpha1.Drift, p *parent.State, child func() (*parent.State, error)) (string, error) {
	if p == nil {
		return "the parent is gone", nil
	}
	for _, c := range approval.ParseClaims(p.Annotations[v1alpha1.AnnotationKeyClaims]) {
		if c.Digest == d.Spec.ID && c.State == v1alpha1.ClaimUsed && d.Status.Since != nil && !c.At.Before(d.Status.Since) {
			return "it was approved", nil
		}
	}
	if intent, _ := trace.Intent(p); d.Spec.Intent > 0 && intent.Generation > d.Spec.Intent {
		return "the parent has a new intent", nil
	}
	c, err := child()
	if err != nil {
		return "", err
	}
	if c == nil && d.Spec.Operation != "CREATE" && d.Spec.Child.Name != "" {
		return "the child was deleted", nil
	}
	if c != nil {
		if own := trace.Of(c.Annotations).Own(); own != nil && own.Approval != nil && own.Approval.Digest == d.Spec.ID {
			return "it was approved", nil
		}
	}
	if withdrawn(d, p) { // last: Crossplane is in sync after an approval, too
		return "it is no longer attempted", nil
	}
	return "", nil
}

// withdrawn reports whether Crossplane composed everything again, after it was
// refused this.
func withdrawn(d *v1alpha1.Drift, p *parent.State) bool {
	if p.Role != parent.RoleComposite || d.Status.LastSeen == nil {
		return false
	}
	c, _ := p.Condition("Synced")
	return c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(d.Status.LastSeen.Time)
}
