package composed

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// TestRemoved: no external resource is lost where the graph is deleted, the CRD of its instances, or kro. What the controller of kro would
// delete then is held as any deletion (KR-18-08).
func TestRemoved(t *testing.T) {
	database := newStore(t, "kept", 10)

	// Without its graph, an instance is an object that nothing reconciles. kro leaves its CRD.
	since := last(t)
	require.NoError(t, as(t, anna).Resource(graphs).Delete(t.Context(), "store", metav1.DeleteOptions{}))
	gone(t, as(t, anna).Resource(graphs), "store")
	kept(t, "kept", database, since)
	_, err := as(t, anna).Resource(crds).Get(t.Context(), "stores.kro.run", metav1.GetOptions{})
	require.NoError(t, err)
	refused(t, stores, "kept")

	// A graph that replaces it is an edit of it.
	revision := define(t, "store", stocked("schema.spec.size * 3"))
	drift(t, "XDatabase", "kept", "UPDATE", edited("store", revision))
	kept(t, "kept", database, since)
	closed(t, database, 10)
	define(t, "store", stocked("schema.spec.size"))

	// The finalizer of the CRD deletes the instance past admission, and kro deletes what is below it: that is refused.
	require.NoError(t, as(t, anna).Resource(crds).Delete(t.Context(), "stores.kro.run", metav1.DeleteOptions{}))
	d := drift(t, "XDatabase", "kept", "DELETE", "deletion by "+kro)
	assert.Equal(t, kro, at(d, "status", "repeatFor"))
	require.NoError(t, the.Unwritten(t.Context(), since, database, 3))
	approve(t, d, story.XDatabases, "kept")
	gone(t, of(t, hans, story.Databases), database)
	outside(t, database, false)
	wait.For(t, "kro to make the CRD again", patience, func(ctx context.Context) error {
		o, err := as(t, anna).Resource(crds).Get(ctx, "stores.kro.run", metav1.GetOptions{})
		if err == nil && o.GetDeletionTimestamp() != nil {
			err = errors.New("it is being deleted")
		}
		return err
	})

	// kro is removed with its CRDs: what it made stays, and is decided about.
	database = newStore(t, "alone", 10)
	since = last(t)
	the.Process("kro").Stop()
	for _, name := range []string{"resourcegraphdefinitions.kro.run", "graphrevisions.internal.kro.run"} {
		require.NoError(t, as(t, anna).Resource(crds).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	approval := refused(t, stores, "alone")
	kept(t, "alone", database, since)
	annotate(t, stores, "alone", approval, "once")
	removed(t, stores, "alone")
	o, err := of(t, hans, stores).Get(t.Context(), "alone", metav1.GetOptions{})
	require.NoError(t, err, "nothing removes the finalizer of kro")
	assert.NotNil(t, o.GetDeletionTimestamp())
}
