package operations

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// TestRefusedDeletionIsRepeated: the gate repeats a deletion that was refused to the garbage collector, once it is approved
// (KR-08-13, KR-13-43).
func TestRefusedDeletionIsRepeated(t *testing.T) {
	ns := the.Namespace(t, "repeated")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	the.Played(t, ns, "lone", nil)
	the.ClosedGate(t, ns, "lone")
	collector := the.As(t, "system:serviceaccount:kube-system:generic-garbage-collector").Resource(site.Databases).Namespace(ns)
	if err := collector.Delete(t.Context(), "lone", site.Forget); !kerrors.IsForbidden(err) {
		t.Fatalf("want it forbidden, got %v", err)
	}
	id := the.ExternalDrift(t, "lone")
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), site.Databases, ns, "lone", site.Annotate("kausality.io/approve-"+id, "once")))
	wait.For(t, "the deletion to be repeated", wait.Patience, func(ctx context.Context) error {
		o, err := the.Admin.Resource(site.Databases).Namespace(ns).Get(ctx, "lone", metav1.GetOptions{})
		if err == nil && o.GetDeletionTimestamp() == nil {
			err = errors.New("it is not deleted")
		} else if kerrors.IsNotFound(err) {
			err = nil
		}
		return err
	})
}
