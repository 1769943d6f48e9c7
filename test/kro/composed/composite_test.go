package composed

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// storeGraph has settings, and a composite that the story's Composition composes of a Database in the cloud.
const storeGraph = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: store}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Store
    spec: {size: integer}
  resources:
  - id: settings
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-settings"}
      data: {size: "${string(schema.spec.size)}"}
`

// storeDatabase is the composite, of a size.
const storeDatabase = `
  - id: database
    template:
      apiVersion: example.org/v1alpha1
      kind: XDatabase
      metadata: {name: "${schema.metadata.name}"}
      spec: {size: "${%s}"}
`

// stocked is the graph with the composite of a size.
func stocked(size string) string {
	return strings.TrimSpace(storeGraph) + fmt.Sprintf(storeDatabase, size)
}

// orderStore as hans.
func orderStore(t *testing.T, name string, size int) {
	t.Helper()
	apply(t, hans, fmt.Sprintf("{apiVersion: kro.run/v1alpha1, kind: Store, metadata: {name: %s}, spec: {size: %d}}", name, size))
}

// newStore returns the name of the Database of a new Store, once all of it settled behind a closed gate.
func newStore(t *testing.T, name string, size int) (database string) {
	t.Helper()
	define(t, "store", stocked("schema.spec.size"))
	orderStore(t, name, size)
	database = only(t, story.Databases).GetName()
	o := closed(t, database, int64(size))
	assert.Equal(t, []string{"Store " + hans, "XDatabase " + kro, "Database " + crossplane}, hops(t, o))
	settled(t, story.XDatabases, name)
	settled(t, stores, name)
	return database
}

// kept: the provider writes nothing for a while, and nothing of a Store is being deleted.
func kept(t *testing.T, name, database string, since int64) {
	t.Helper()
	require.NoError(t, the.Unwritten(t.Context(), since, database, 3))
	for r, name := range map[schema.GroupVersionResource]string{stores: name, story.XDatabases: name, story.Databases: database} {
		o, err := of(t, hans, r).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Nil(t, o.GetDeletionTimestamp(), r.Resource)
	}
	outside(t, database, true)
}

// last is the sequence number of the last request to the cloud.
func last(t *testing.T) int64 {
	t.Helper()
	seq, err := the.Cloud.LastSeq(t.Context())
	require.NoError(t, err)
	return seq
}

var command = regexp.MustCompile(`kubectl annotate -n \S+ (\S+) (\S+) kausality\.io/approve-(\w+)=once`)

// refused deletion of an object by hans; it returns the key of the annotation that approves it, on that object.
func refused(t *testing.T, r schema.GroupVersionResource, name string) (approval string) {
	t.Helper()
	err := of(t, hans, r).Delete(t.Context(), name, metav1.DeleteOptions{})
	require.ErrorContains(t, err, "ExternalDeletionNotAllowed")
	m := command.FindStringSubmatch(err.Error())
	require.NotNil(t, m, err.Error())
	assert.Equal(t, r.Resource+"."+r.Group, m[1])
	assert.Equal(t, name, m[2])
	return v1alpha1.AnnotationKeyApprovePrefix + m[3]
}

// destroyed: hans deletes an object, with the Database below it, once that is approved.
func destroyed(t *testing.T, r schema.GroupVersionResource, name, database string) {
	t.Helper()
	annotate(t, r, name, refused(t, r, name), "once")
	removed(t, r, name)
	gone(t, of(t, hans, r), name)
	gone(t, of(t, hans, story.Databases), database)
	outside(t, database, false)
}

// removed deletes an object as hans, once that is allowed.
func removed(t *testing.T, r schema.GroupVersionResource, name string) {
	t.Helper()
	wait.For(t, "the deletion of "+name+" to be allowed", patience, func(ctx context.Context) error {
		err := of(t, hans, r).Delete(ctx, name, metav1.DeleteOptions{})
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// TestCompositeOfInstance: a user's change of an instance reaches the external resource below a composite of its graph. An edit of the
// graph is held on the composite, also one that drops it, and an approval on the instance lets exactly that change reach it
// (KR-18-01, KR-18-05). The deletion of the instance is decided as a composite's (KR-08-12).
func TestCompositeOfInstance(t *testing.T) {
	database := newStore(t, "main", 10)
	orderStore(t, "main", 20)
	assert.Equal(t, "Store "+hans, hops(t, closed(t, database, 20))[0])
	settled(t, story.XDatabases, "main")
	settled(t, stores, "main")

	// Held: nothing reaches the managed resource. Approved, it does.
	since := last(t)
	revision := define(t, "store", stocked("schema.spec.size * 2"))
	d := drift(t, "XDatabase", "main", "UPDATE", edited("store", revision))
	kept(t, "main", database, since)
	has(t, story.Databases, database, int64(20), "spec", "forProvider", "size")
	closed(t, database, 20)
	approve(t, d, stores, "main")
	closed(t, database, 40)
	settled(t, story.XDatabases, "main")
	settled(t, stores, "main")

	// Another edit is another change.
	since = last(t)
	revision = define(t, "store", stocked("schema.spec.size * 3"))
	drift(t, "XDatabase", "main", "UPDATE", edited("store", revision))
	kept(t, "main", database, since)
	closed(t, database, 40)

	// Dropped from the graph, it stays.
	define(t, "store", strings.TrimSpace(storeGraph))
	d = drift(t, "XDatabase", "main", "DELETE", "deletion by "+kro)
	assert.Equal(t, v1alpha1.RelationExternal, v1alpha1.Relation(at(d, "spec", "relation")))
	kept(t, "main", database, since)
	define(t, "store", stocked("schema.spec.size * 2"))

	refused(t, stores, "main")
	kept(t, "main", database, since)
	destroyed(t, stores, "main", database)
}

// TestLeftBehind: the external resource below an instance is left behind where that is requested (KR-08-11).
func TestLeftBehind(t *testing.T) {
	database := newStore(t, "left", 10)
	refused(t, stores, "left")
	annotate(t, story.Databases, database, v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)
	removed(t, stores, "left")
	gone(t, of(t, hans, stores), "left")
	gone(t, of(t, hans, story.Databases), database)
	outside(t, database, true)
}
