package cli

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// carried returns the approval that has let a listed difference through since it was last seen, by the annotations of the holder of its
// approvals; nil for none. Its Drift is resolved a moment later, and another approval would be for its next occurrence (KR-12-34).
func carried(d *v1alpha1.Drift, annotations map[string]string) *v1alpha1.HopApproval {
	if d.Status.LastSeen == nil {
		return nil
	}
	pending := d.Spec.Relation != v1alpha1.RelationExternal // an open gate may need more votes than opened it
	return approval.ParseClaims(annotations[v1alpha1.AnnotationKeyClaims]).UsedFor(d.Spec.ID, d.Status.LastSeen.Time, pending)
}

// unlessCarried is an edit that changes nothing where the difference was let through.
func unlessCarried(d *v1alpha1.Drift, key string, edit annotate.Edit) annotate.Edit {
	return annotate.Unless(func(annotations map[string]string) bool { return carried(d, annotations) != nil }, key, edit)
}

// lastApproved describes the last of some Drifts that an approval resolved, as a clause; empty for none.
func lastApproved(all []v1alpha1.Drift) string {
	var last *v1alpha1.Drift
	for i := range all {
		d := &all[i]
		if a := d.Status.Approval; !channel.Open(d) && a != nil && (last == nil || last.Status.LastSeen.Before(d.Status.LastSeen)) {
			last = d
		}
	}
	if last == nil {
		return ""
	}
	return "the last change, " + last.Name + ", was approved" + approval.ByText(last.Status.Approval)
}

// approvedBy returns the ids that a user approves by annotations, each once.
func approvedBy(annotations map[string]string, user string) (ids []string) {
	set := approval.Parse(annotations)
	for _, e := range set.Approvals {
		own := func(v v1alpha1.Vote) bool { return v.User == user }
		c := set.Claims.Of(e.Content)
		id := change.Digest(e.Digest).ID()
		if id != "" && slices.ContainsFunc(set.By(e), own) && (c == nil || !c.Spent()) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
