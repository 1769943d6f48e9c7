package operations

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestRefusedDeletionIsRepeated: the gate repeats a deletion that was refused to the garbage collector, once it is approved
// (KR-08-13, KR-13-43).
func TestRefusedDeletionIsRepeated(t *testing.T) {
	ns := namespace(t, "repeated")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	played(t, ns, "lone", nil)
	closedGate(t, ns, "lone")
	collector := as(t, "system:serviceaccount:kube-system:generic-garbage-collector").Resource(databases).Namespace(ns)
	if err := collector.Delete(t.Context(), "lone", forget); !kerrors.IsForbidden(err) {
		t.Fatalf("want it forbidden, got %v", err)
	}
	id := externalDrift(t, "lone")
	require.NoError(t, merge(t, as(t, hans), databases, ns, "lone", annotate("kausality.io/approve-"+id, "once")))
	wait.For(t, "the deletion to be repeated", wait.Patience, func(ctx context.Context) error {
		o, err := the.admin.Resource(databases).Namespace(ns).Get(ctx, "lone", metav1.GetOptions{})
		if err == nil && o.GetDeletionTimestamp() == nil {
			err = errors.New("it is not deleted")
		} else if kerrors.IsNotFound(err) {
			err = nil
		}
		return err
	})
}
