package story

import (
	"context"
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// removedByFunction: a resource that a Composition revision no longer has is emitted again, and
// nothing of it changes, in the cluster and outside, until its deletion is approved (KR-09-07).
func removedByFunction(ctx context.Context, e *Env, t *Teller) error {
	t.Types(Alice, fmt.Sprintf("kubectl annotate xdatabase %s kausality.io/freeze-", xrName))
	if err := e.Annotate(ctx, Alice, XDatabases, xrName, v1alpha1.AnnotationKeyFreeze, nil); err != nil {
		return err
	}
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	before, err := e.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	t.Types("", "kubectl apply -f composition.yaml   # without the database")
	tier := text(mr, "spec", "forProvider", "tags", "tier")
	if err := e.Compose(ctx, Composition{Tier: tier, Kausality: true, Without: "database"}); err != nil {
		return err
	}
	command, err := e.removalHeld(ctx, t)
	if err != nil {
		return err
	}
	if err := e.Unwritten(ctx, before, mr.GetName(), 3); err != nil {
		return err
	}
	is, err := e.MR(ctx)
	if err != nil {
		return err
	}
	if is.GetUID() != mr.GetUID() || is.GetDeletionTimestamp() != nil {
		return fmt.Errorf("it is another Database, or being deleted: %v", is.Object["metadata"])
	}
	t.Right("the database stays, in the cluster and in the cloud")
	if err := e.follow(ctx, t, Alice, command); err != nil {
		return err
	}
	if err := e.awaitGone(ctx, mr.GetName()); err != nil {
		return err
	}
	t.Right("with the approval it is deleted, in the cluster and in the cloud")
	return nil
}

// removalHeld returns the command that approves the deletion of the Database, once the XR's
// condition has it.
func (e *Env) removalHeld(ctx context.Context, t *Teller) (command string, err error) {
	err = until(ctx, "the XR to report that the removal is held", func(ctx context.Context) error {
		xr, err := e.XR(ctx)
		if err != nil {
			return err
		}
		status, reason, message := condition(xr, v1alpha1.ConditionKausality)
		for line := range strings.Lines(message) {
			if strings.HasPrefix(line, `resource "database": `) && strings.Contains(line, "deleting") {
				command = suggested(line)
				t.Reports("Kausality  %s  %s\n%s", status, reason, line)
			}
		}
		if status != "False" || reason != v1alpha1.ConditionReasonHeld || command == "" {
			return fmt.Errorf("condition Kausality is %s/%s: %s", status, reason, message)
		}
		return nil
	})
	return command, err
}
