package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// voteOptions are the forms of an approval other than a plain one (KR-14-41).
type voteOptions struct {
	// breakGlass is the reason for which the user approves alone; empty for an ordinary approval.
	breakGlass string
	withdraw   bool
	period     time.Duration
}

func (o *voteOptions) add(fl *pflag.FlagSet) {
	fl.Var((*required)(&o.breakGlass), "break-glass",
		"Approve alone and at any time, where the ApprovalRules name you for it, for this reason, which is recorded.")
	fl.BoolVar(&o.withdraw, "withdraw", false, "Withdraw your own approval; those of other users stay.")
	fl.Var((*period)(&o.period), "for", "For how long it counts if it is not used, as in 1d, 2h or 90m.")
}

// check checks that the flags go with each other, before the cluster is read.
func (o *voteOptions) check(c *approveCommand) error {
	differences := c.any || c.digest != ""
	switch {
	case o.breakGlass != "" && o.withdraw:
		return usageError{errors.New("--break-glass and --withdraw exclude each other; give one")}
	case o.breakGlass != "" && (differences || c.mode != v1alpha1.ApprovalOnce || o.period != 0 || c.reason != ""):
		return usageError{errors.New("--break-glass approves differences that are reported, once, for the reason that is its value; " +
			"it does not go with --any, --digest, --mode, --for or --reason")}
	case o.withdraw && (differences || c.mode != v1alpha1.ApprovalOnce || o.period != 0 || c.reason != "" || c.wait):
		return usageError{errors.New("--withdraw removes your approval of differences that are reported; it does not go with other flags of an approval")}
	case o.period < 0:
		return usageError{fmt.Errorf("--for must be more than 0, not %s", o.period)}
	}
	return nil
}

// expiry returns the expiry of an approval that is given now, in whole seconds, UTC; nil where it has none.
func (o *voteOptions) expiry(now time.Time) *metav1.Time {
	if o.period == 0 {
		return nil
	}
	return &metav1.Time{Time: now.Add(o.period).UTC().Truncate(time.Second)}
}

// vote returns the annotation of a user for one difference, and its edit.
func (o *voteOptions) vote(user, id string, mode v1alpha1.ApprovalMode, reason string, now time.Time) (key string, edit annotate.Edit) {
	switch {
	case o.withdraw:
		return annotate.ApproveKey(id), annotate.Withdraw(id, user)
	case o.breakGlass != "":
		return annotate.ApproveKey(id), annotate.Vote(id, approval.ValueBreakGlass+" "+o.breakGlass)
	case reason != "" || o.period != 0: // an annotation of the other form has no room for them (KR-12-23)
		return v1alpha1.AnnotationKeyApprovals, annotate.AddApproval(v1alpha1.Approval{Digest: id, Mode: mode, Reason: reason, Expiry: o.expiry(now)})
	}
	return annotate.ApproveKey(id), annotate.Approve(id, mode)
}

// withdrawn returns the writes that withdraw the user's own approval of a difference, whose approval would be w: of the vote, and of the entry of approvals
// that holds its reason or expiry.
func (c *approveCommand) withdrawn(ctx context.Context, i *inspect.Inspector, w annotationWrite) []annotationWrite {
	w.next, w.warn, w.judge, w.isRemoval = "Your approval is removed; those of other users stay.", nil, nil, true
	u, err := w.on.client.Get(ctx, w.on.GetName(), metav1.GetOptions{})
	if err != nil {
		w.err = fmt.Errorf("cannot read %s: %w", w.on.describe(), err)
		return []annotationWrite{w}
	}
	contents := annotate.GivenBy(u.GetAnnotations(), w.drift.Spec.ID, i.User.Name)
	if len(contents) == 0 {
		return []annotationWrite{w}
	}
	entry := w
	entry.key, entry.edit = v1alpha1.AnnotationKeyApprovals, annotate.RemoveApprovals(contents)
	if _, err := w.edit(u.GetAnnotations()); err != nil { // the entry is all that approves it
		return []annotationWrite{entry}
	}
	w.next, entry.followsPrevious = "", true
	return []annotationWrite{w, entry}
}

// question before several differences are decided about.
func (o *voteOptions) question(mode v1alpha1.ApprovalMode) string {
	switch {
	case o.withdraw:
		return "Withdraw your approvals of %s?"
	case o.breakGlass != "":
		return "Break the glass for %s?"
	}
	return "Approve %s (" + string(mode) + ")?"
}
