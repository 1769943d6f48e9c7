package cli

import (
	"context"
	"fmt"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// verdict is what a write has led to: a sentence for the user, and whether it has an effect.
type verdict struct {
	next       string
	discounted bool
}

// cast judges an approval of a difference by the answer of the API server (KR-14-44). carriedOut is what happens once it is allowed.
func (c *approveCommand) cast(i *inspect.Inspector, d *v1alpha1.Drift, t target, carriedOut string) func(context.Context, annotate.Change) (verdict, error) {
	return func(ctx context.Context, change annotate.Change) (verdict, error) {
		if by := channel.Carried(d, change.Has); by != nil && change.Unchanged {
			return verdict{next: "It was approved already" + approval.ByText(by) + ", and its controller carries it out. If it occurs again, it is listed again."}, nil
		}
		cast, err := i.Cast(ctx, d, change.Had, change.Has)
		if kerrors.IsForbidden(err) && cast.Rejected == nil {
			return verdict{next: unknownCast(d, err)}, nil
		}
		if err != nil && !kerrors.IsForbidden(err) {
			return verdict{}, fmt.Errorf("cannot determine whether the approval of %s is enough: %w", d.Name, err)
		}
		return verdict{next: castText(&cast, t, d, carriedOut), discounted: !cast.Counts()}, nil
	}
}

// unknownCast returns what to print where the user may not read what decides about a vote.
func unknownCast(d *v1alpha1.Drift, err error) string {
	return "It is not known whether other approvals are needed: " + err.Error() + "." + channel.Part(" Before it: ", d.Status.Lacks, ".") +
		" The ClusterRole kausality-viewer grants that right; kubectl kausality pending shows what is missing."
}

// castText describes what became of an approval, and what to do next.
func castText(c *approve.Cast, t target, d *v1alpha1.Drift, carriedOut string) string {
	switch {
	case c.Rejected != nil:
		return "It allows nothing: a rejection on " + t.describe() + " is in force until it is withdrawn (" + c.Rejected.Reason +
			"). To withdraw it: " + withdrawRejection(d)
	case c.Frozen:
		carriedOut = "It has an effect once the freeze ends: kubectl kausality unfreeze " + t.arg()
	}
	switch {
	case !c.Ruled:
		return carriedOut
	case !c.Stored && c.Lacks == "":
		return "Allowed already. " + carriedOut
	case !c.Stored:
		return "Your vote is not stored, and does not count: no webhook has reviewed it. Approve it again. " + sentence(c.Lacks)
	case c.Discounted != "":
		return "Your vote does not count: " + sentence(c.Discounted) + " " + sentence(c.Lacks)
	}
	vote := "Your vote counts"
	switch {
	case c.NoGlass:
		vote = "No ApprovalRule names you for breaking the glass; your vote counts as any other"
	case c.Voted:
		vote = "You had voted already, and have one vote"
	}
	switch {
	case c.Lacks == "":
		return vote + ". The change is allowed. " + carriedOut
	case c.Waits:
		return vote + ". The change is approved, and waits: " + sentence(c.Lacks) + " " + carriedOut
	}
	return vote + ": " + sentence(c.Lacks)
}

// sentence returns the sentence of a clause that may have no end.
func sentence(clause string) string {
	return channel.Part("", strings.TrimSuffix(clause, "."), ".")
}

// withdrawRejection returns the command that removes the rejections of the object of a difference.
func withdrawRejection(d *v1alpha1.Drift) string {
	return "kubectl kausality reject " + d.Name + " --withdraw" + channel.InNamespace(d.Namespace)
}
