package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// voteOptions are the forms of an approval other than a plain one (KR-14-41).
type voteOptions struct {
	breakGlass, withdraw bool
	period               time.Duration
}

func (o *voteOptions) add(fl *pflag.FlagSet) {
	fl.BoolVar(&o.breakGlass, "break-glass", false,
		"Approve alone and at any time, where the ApprovalRules name you for it; with --reason, which is recorded.")
	fl.BoolVar(&o.withdraw, "withdraw", false, "Withdraw your own approval; those of other users stay.")
	fl.Var((*period)(&o.period), "for", "For how long it counts if it is not used, as in 1d, 2h or 90m.")
}

// check that the flags go with each other, before the cluster is read.
func (o *voteOptions) check(c *approveCommand) error {
	differences := c.any || c.digest != ""
	switch {
	case o.breakGlass && o.withdraw:
		return usageError{errors.New("--break-glass and --withdraw exclude each other; give one")}
	case o.breakGlass && c.reason == "":
		return usageError{errors.New("--break-glass needs a --reason")}
	case o.breakGlass && (differences || c.mode != v1alpha1.ApprovalOnce || o.period != 0):
		return usageError{errors.New("--break-glass approves differences that are reported, once; it does not go with --any, --digest, --mode or --for")}
	case o.withdraw && (differences || c.mode != v1alpha1.ApprovalOnce || o.period != 0 || c.reason != "" || c.wait):
		return usageError{errors.New("--withdraw removes your approval of differences that are reported; it does not go with other flags of an approval")}
	case o.period < 0:
		return usageError{fmt.Errorf("--for must be more than 0, not %s", o.period)}
	}
	return nil
}

// expiry of an approval that is given now, in whole seconds, UTC; nil where it has none.
func (o *voteOptions) expiry(now time.Time) *metav1.Time {
	if o.period == 0 {
		return nil
	}
	return &metav1.Time{Time: now.Add(o.period).UTC().Truncate(time.Second)}
}

// vote is the annotation for one difference, and its edit.
func (o *voteOptions) vote(id string, mode v1alpha1.ApprovalMode, reason string, now time.Time) (key string, edit annotate.Edit) {
	switch {
	case o.withdraw:
		return annotate.ApproveKey(id), annotate.Vote(id, approval.ValueWithdraw)
	case o.breakGlass:
		return annotate.ApproveKey(id), annotate.Vote(id, approval.ValueBreakGlass+" "+reason)
	case reason != "" || o.period != 0: // an annotation of the other form has no room for them (KR-12-23)
		return v1alpha1.AnnotationKeyApprovals, annotate.AddApproval(v1alpha1.Approval{Digest: id, Mode: mode, Reason: reason, Expiry: o.expiry(now)})
	}
	return annotate.ApproveKey(id), annotate.Approve(id, mode)
}

// question before several differences are decided about.
func (o *voteOptions) question(mode v1alpha1.ApprovalMode) string {
	switch {
	case o.withdraw:
		return "Withdraw your approvals of %s?"
	case o.breakGlass:
		return "Break the glass for %s?"
	}
	return "Approve %s (" + string(mode) + ")?"
}
