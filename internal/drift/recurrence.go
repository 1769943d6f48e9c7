package drift

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// Parents reads and writes the objects that have approvals; *states.States does.
type Parents interface {
	Get(ctx context.Context, ref parent.Ref, live bool) (*states.Object, error)
	Apply(ctx context.Context, ref parent.Ref, p states.Patch) error
}

// ForgetUsedApprovals returns the function for Reporter.Recurred: when a difference occurs again, it
// removes the used approvals of its earlier occurrence from the claims of the parent, so that it can be
// approved again (KR-05-35). manager is the field manager of the write.
func ForgetUsedApprovals(parents Parents, manager string) func(context.Context, parent.Ref, string) error {
	return func(ctx context.Context, ref parent.Ref, id string) error {
		o, err := parents.Get(ctx, ref, true)
		if err != nil {
			return err
		}
		set := approval.Parse(o.Annotations)
		next := set.Claims.Forget(id, set.Approvals)
		if len(next) == len(set.Claims) {
			return nil
		}
		value := next.String()
		return parents.Apply(ctx, o.State.Ref, states.Patch{
			Manager: manager, ResourceVersion: o.ResourceVersion,
			Annotations: map[string]*string{v1alpha1.AnnotationKeyClaims: &value},
		})
	}
}

// EndLeftoverApprovals returns the function for Reporter.Approved: it ends the approvals of a difference that were left over when it was
// carried out (KR-05-40). It reads past the cache, which may not have the use of the approval yet. manager is the field manager of the write.
func EndLeftoverApprovals(parents Parents, manager string) func(context.Context, parent.Ref, string) error {
	return func(ctx context.Context, ref parent.Ref, id string) error {
		o, err := parents.Get(ctx, ref, true)
		if errors.Is(err, admission.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		edits := approval.Leftover(o.Annotations, id, clock.Now())
		if edits == nil {
			return nil
		}
		return parents.Apply(ctx, o.State.Ref, states.Patch{Manager: manager, ResourceVersion: o.ResourceVersion, Annotations: edits})
	}
}

// Client of a manager that reads past every cache: whether a Drift is Detected is the lock of its
// report, and must not be read from a stale copy.
func Client(mgr manager.Manager) (client.Client, error) {
	c, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	return c, nil
}
