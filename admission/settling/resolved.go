package settling

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Resolved returns why a drift of a child is over, as a clause; "" while it is not. p
// is nil for a parent that does not exist, and so is the result of child, which is
// called only where neither the parent's claims nor its intent decide. graph is the one that defines the
// kind of the parent; nil for none, and where it is not known.
// External drifts are resolved by the gate, which sees the difference itself (KR-10-05).
func Resolved(d *v1alpha1.Drift, p, graph *parent.State, now time.Time, child func() (*parent.State, error)) (string, error) {
	if p == nil {
		return "the parent is gone", nil
	}
	if claimed(d, p) {
		return WhyApproved, nil
	}
	if overtaken(d, p) {
		return "the parent has a new intent", nil
	}
	c, err := child()
	if err != nil {
		return "", err
	}
	if c == nil && d.Spec.Operation != "CREATE" && d.Spec.Child.Name != "" {
		if deletedByUse(d, p, c) {
			return WhyApproved, nil
		}
		return "the child was deleted", nil
	}
	if landed(d, c) {
		return WhyApproved, nil
	}
	if p.Role == parent.RoleInstance && dropped(d, p, graph, now) {
		return WhyWithdrawn, nil
	}
	if withdrawn(d, p, now) { // last: Crossplane is in sync after an approval, too
		return WhyWithdrawn, nil
	}
	return "", nil
}

// WhyApproved is the resolution of a drift that an approval allowed.
const WhyApproved = "it was approved"

// WhyWithdrawn is the resolution of a drift that its controller attempts no longer.
const WhyWithdrawn = "it is no longer attempted"

// ApprovalOf returns the approval by which a drift is resolved: that in the trace of the child, else that which its use shows on an object
// on which it may have been approved (KR-14-63). Each may be nil. It is nil where that is not known.
func ApprovalOf(d *v1alpha1.Drift, child *parent.State, on ...*parent.State) *v1alpha1.HopApproval {
	if landed(d, child) {
		return trace.Of(child.Annotations).Own().Approval
	}
	for _, p := range on {
		if p == nil {
			continue
		}
		if a := use(d, p, true); a != nil {
			return a
		}
	}
	return nil
}

// claimed reports whether an approval of a drift was used.
func claimed(d *v1alpha1.Drift, p *parent.State) bool { return use(d, p, false) != nil }

// deletedByUse reports whether a child is gone for whose deletion an approval is claimed: that it was stored, the claim shows later.
func deletedByUse(d *v1alpha1.Drift, p, child *parent.State) bool {
	return child == nil && d.Spec.Operation == "DELETE" && use(d, p, true) != nil
}

// use of an approval of a drift on an object, as approval.Claims.UsedFor.
func use(d *v1alpha1.Drift, p *parent.State, pending bool) *v1alpha1.HopApproval {
	if d.Status.Since == nil {
		return nil
	}
	return approval.ParseClaims(p.Annotations[v1alpha1.AnnotationKeyClaims]).UsedFor(d.Spec.ID, d.Status.Since.Time, pending)
}

// landed reports whether a child, nil for none, has the approved change of a drift.
func landed(d *v1alpha1.Drift, c *parent.State) bool {
	if c == nil {
		return false
	}
	own := trace.Of(c.Annotations).Own()
	return own != nil && own.Approval != nil && own.Approval.Digest == d.Spec.ID
}

// overtaken reports whether a later intent of the parent ended a drift. What is held is not ended by the intent, but
// by its having been carried out without the difference being seen again: the intent changed the value, or it is no
// longer wanted (KR-05-65).
func overtaken(d *v1alpha1.Drift, p *parent.State) bool {
	intent, later := laterIntent(d, p)
	return later && (d.Status.Held == nil || SettledAt(p, intent, -1))
}

// laterIntent returns the intent generation of a parent, and whether a drift was not seen since.
func laterIntent(d *v1alpha1.Drift, p *parent.State) (generation int64, later bool) {
	intent, _ := trace.Intent(p)
	seen := max(d.Spec.Intent, d.Status.Intent)
	return intent.Generation, seen > 0 && intent.Generation > seen
}

// separatedFor is how long a difference that writes pass without is not seen before it counts as no longer wanted, once
// the parent has settled: Crossplane composes at least that often, and is refused it then.
const separatedFor = 10 * time.Minute

// withdrawn reports whether Crossplane composed everything again, after it was
// refused this. A write that passed without the difference shows nothing: Crossplane does not know of it. Nor does
// it show anything of what another user was refused, as of a deletion.
func withdrawn(d *v1alpha1.Drift, p *parent.State, now time.Time) bool {
	intent, later := laterIntent(d, p)
	if p.Role != parent.RoleComposite || d.Status.LastSeen == nil || later && d.Status.Held != nil || byAnother(d, p) {
		return false
	}
	c, _ := p.Condition("Synced")
	if c.Status != metav1.ConditionTrue {
		return false
	}
	if d.Status.Separated {
		return SettledAt(p, intent, -1) && now.Sub(d.Status.LastSeen.Time) > separatedFor
	}
	return c.LastTransitionTime.After(d.Status.LastSeen.Time)
}

// byAnother reports whether a drift is of a user who is known not to be a controller of the parent.
func byAnother(d *v1alpha1.Drift, p *parent.State) bool {
	known, id := subject.ControllersOf(p.Annotations), subject.User{Name: d.Spec.User}.ID()
	return known.Known() && !known.Has(id) && !known.HasHash(subject.HashOf(id))
}

// repeatedFor is how long what kro was refused is not seen before it counts as no longer wanted: kro repeats it every three seconds,
// which is recorded once a minute.
const repeatedFor = 2 * time.Minute

// droppedFor is how long an update is not seen after a later edit of the graph before it counts as no longer wanted: kro may take its
// time for many instances, and shows of none that it came to it.
const droppedFor = time.Hour

// dropped reports whether kro attempts a difference of a child of an instance no longer. A creation that it was refused it repeats until
// the instance is carried out. An update is put back, and attempted again when kro carries out the next edit of the graph (KR-18-06). An
// instance that is not carried out shows nothing: kro may not have come to the child.
func dropped(d *v1alpha1.Drift, instance, graph *parent.State, now time.Time) bool {
	seen := d.Status.LastSeen
	byKro := subject.ControllersOf(instance.Annotations).Has(subject.User{Name: d.Spec.User}.ID())
	intent, _ := trace.Intent(instance)
	if seen == nil || !byKro || !instance.Converged || !SettledAt(instance, intent.Generation, -1) {
		return false
	}
	if d.Spec.Operation == "CREATE" {
		return now.Sub(seen.Time) > repeatedFor
	}
	if d.Spec.Operation != "UPDATE" || graph == nil {
		return false
	}
	edit, _ := trace.Intent(graph)
	carriedOut := graph.Converged && graph.ReportedGeneration() >= edit.Generation
	return edit.Timestamp.After(seen.Time) && carriedOut && now.Sub(edit.Timestamp.Time) > droppedFor
}
