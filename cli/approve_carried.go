package cli

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

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
