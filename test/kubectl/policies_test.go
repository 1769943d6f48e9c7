package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// gold lets any controller set the tier of databases without an approval by a
// user.
const gold = `
apiVersion: kausality.io/v1alpha1
kind: ClusterApprovalPolicy
metadata: {name: gold}
spec:
  rules:
  - {apiVersion: cloud.example.org/*, kind: Database, match: {cel: "object.spec.forProvider.tags.tier == 'gold'"}, mode: always}
`

// sizes: while an XDatabase is being set up, its controller may set the size of
// its databases, and nothing else.
const sizes = `
apiVersion: kausality.io/v1alpha1
kind: AllowancePolicy
metadata: {name: sizes}
spec:
  target: {apiGroup: example.org, apiVersion: v1alpha1, kind: XDatabase}
  subjects:
  - {kind: User, name: hans@example.com, mayInitiate: true}
  initializing:
    allow:
    - {relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: spec.forProvider.size}]}
`

// inForce applies a policy for the length of f.
func inForce(t *testing.T, manifest, resource, name string, f func()) {
	t.Helper()
	require.NoError(t, the.Apply(t.Context(), []byte(manifest)))
	f()
	hans, err := the.As(story.Hans)
	require.NoError(t, err)
	r := schema.GroupVersionResource{Group: v1alpha1.Group, Version: "v1alpha1", Resource: resource}
	require.NoError(t, hans.Resource(r).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// policies determine the outcomes of explain and preview, as in the webhook.
func policies(t *testing.T) {
	cli, err := parts.Ensure(t.Context(), os.Stderr, "", parts.CrossplaneCLI)
	require.NoError(t, err)
	db, changed, child := database(t), compositionFile(t, "gold", true), ""
	preview := []string{"preview", changed, "--crossplane=" + cli[parts.CrossplaneCLI], "--functions", servePatchAndTransform(t)}
	const tag, size = "spec: {forProvider: {tags: {tier: gold}}}", "spec: {forProvider: {size: 21}}"
	inForce(t, gold, "clusterapprovalpolicies", "gold", func() {
		the.terminal(t, "", "explain", db, "--exit-code", "--patch", tag).golden(t, "explain-policy", 0)
		the.terminal(t, "", preview...).golden(t, "preview-policy", 0)
	})
	own := setUp(t)
	inForce(t, sizes, "allowancepolicies", "sizes", func() {
		child = own() // a policy does not apply to intents from before it
		the.terminal(t, "", "explain", child, "--exit-code", "--patch", size).golden(t, "explain-allowance", 0)
		the.terminal(t, "", "explain", child, "--exit-code", "--patch", tag).golden(t, "explain-allowance-missing", 4)
	})
	if r := the.pipe(t, "explain", child, "--exit-code", "--patch", tag); r.code != 0 {
		t.Errorf("without the policy everything is allowed while it is set up: %+v", r)
	}
	if r := the.pipe(t, "explain", db, "--exit-code", "--patch", tag); r.code != 4 {
		t.Errorf("without the policy it is drift: %+v", r)
	}
}

// setUp a database whose gate stays open for its creation, which the cloud refuses.
// own gives it to a new XDatabase that never gets ready, since it is paused.
func setUp(t *testing.T) (own func() (child string)) {
	t.Helper()
	hans, err := the.As(story.Hans)
	require.NoError(t, err)
	alice, err := the.As(story.Alice) // who is not taken for the controller of what she makes
	require.NoError(t, err)
	require.NoError(t, the.Cloud.FailNext(t.Context(), -1, 0))
	t.Cleanup(func() { require.NoError(t, the.Cloud.Reset(context.Background())) })
	object := func(c dynamic.Interface, r schema.GroupVersionResource, kind string, annotations map[string]string,
		spec map[string]any,
	) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.GroupVersion().String(), "kind": kind, "spec": spec}}
		o.SetName("new")
		o.SetNamespace("default")
		o.SetAnnotations(annotations)
		stored, err := c.Resource(r).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			if err := hans.Resource(r).Namespace("default").Delete(context.Background(), "new", metav1.DeleteOptions{}); err != nil && !kerrors.IsNotFound(err) {
				t.Error(err) // the database may go with the composite
			}
		})
		return stored
	}
	object(alice, story.Databases, "Database", nil, map[string]any{"forProvider": map[string]any{"size": int64(1)}})
	require.NoError(t, the.Annotate(t.Context(), story.Hans, story.Databases, "new", v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan))
	wait.For(t, "the gate to be open for its creation", 60*time.Second, func(ctx context.Context) error {
		o, err := hans.Resource(story.Databases).Namespace("default").Get(ctx, "new", metav1.GetOptions{})
		if err == nil && !strings.Contains(o.GetAnnotations()[v1alpha1.AnnotationKeyGate], `"state":"open"`) {
			err = fmt.Errorf("the gate is %q", o.GetAnnotations()[v1alpha1.AnnotationKeyGate])
		}
		return err
	})
	return func() string {
		t.Helper()
		xr := object(hans, story.XDatabases, "XDatabase", map[string]string{"crossplane.io/paused": "true"}, map[string]any{"size": int64(1)})
		owner := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q},"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]}}`,
			v1alpha1.AnnotationKeyParent, xr.GetUID(), xr.GetAPIVersion(), xr.GetKind(), xr.GetName(), xr.GetUID())
		if _, err := alice.Resource(story.Databases).Namespace("default").Patch(t.Context(), "new", types.MergePatchType, owner, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		return "database/new"
	}
}

// gateUser is the user whose writes the webhook does not change.
const gateUser = "system:serviceaccount:kausality-system:kausality-gate"

// ungates one managed resource, all of them, and all of them for the removal, while
// webhook and gate run in mode enforce.
func ungates(t *testing.T) {
	db := database(t)
	gateClosed(t)
	the.terminal(t, "", "ungate", db, "--dry-run").golden(t, "ungate-dry-run", 0)
	the.pipe(t, "ungate", db, "--dry-run", "-o", "name").has(t, 0, "databases.cloud.example.org/"+strings.TrimPrefix(db, "database/")+"\n")
	the.terminal(t, "n\n", "ungate", db).golden(t, "ungate-no", 1)
	the.terminal(t, "y\n", "ungate", db).golden(t, "ungate-undone", 1)
	if r := the.pipe(t, "ungate", db); r.code != 2 {
		t.Errorf("without a terminal and without --yes: %+v", r)
	}
	if r := the.as(t, gateUser, "ungate", db, "--yes"); r.code != 0 || !strings.Contains(r.out, "1 masked, 0 with pending external drift, 1 restored") {
		t.Errorf("as the gate's own user: %+v", r)
	}
	wait.For(t, "the running gate to mask again", 60*time.Second, func(ctx context.Context) error { return policiesAre(ctx, `["Observe"]`, true) })
	gateClosed(t)
	if r := the.as(t, gateUser, "ungate", "--all", "--for-removal", "--yes", "-o", "json"); r.code != 0 {
		t.Errorf("for the removal: %+v", r)
	}
	// Nothing is masked again, although all components run, and the provider has
	// observed the restored policies.
	wait.For(t, "the provider to see it", 60*time.Second, reconciled)
	if err := policiesAre(t.Context(), `["*"]`, false); err != nil {
		t.Error(err)
	}
	the.terminal(t, "", "explain", db).golden(t, "explain-removal", 0)
	unmark(t)
	wait.For(t, "the gate to mask again", 60*time.Second, func(ctx context.Context) error { return policiesAre(ctx, `["Observe"]`, true) })
	gateClosed(t)
}

// as another user, of all groups that may do everything.
func (l *environment) as(t *testing.T, user string, args ...string) result {
	t.Helper()
	kubeconfig, err := l.Kubeconfig("admin-of-plugin", "")
	require.NoError(t, err)
	return l.pipe(t, append(args, "--kubeconfig", kubeconfig, "--as", user, "--as-group", "system:masters", "-n", "default")...)
}

// policiesAre those of the database, and it is masked or not.
func policiesAre(ctx context.Context, want string, masked bool) error {
	mr, err := the.MR(ctx)
	if err != nil {
		return err
	}
	spec, _ := mr.Object["spec"].(map[string]any)
	got := fmt.Sprintf("%q", spec["managementPolicies"])
	if _, is := mr.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies]; got != want || is != masked {
		return fmt.Errorf("managementPolicies are %s, masked %v", got, is)
	}
	return nil
}

// reconciled fails until the provider has seen the database as it is.
func reconciled(ctx context.Context) error {
	mr, err := the.MR(ctx)
	if err != nil {
		return err
	}
	list, _, err := unstructured.NestedSlice(mr.Object, "status", "conditions")
	for _, e := range list {
		c, _ := e.(map[string]any)
		if c["type"] == "Synced" && c["status"] == "True" && c["observedGeneration"] == mr.GetGeneration() {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("the conditions at generation %d are %v", mr.GetGeneration(), list))
}

// unmark the webhook configuration: the removal is cancelled.
func unmark(t *testing.T) {
	t.Helper()
	r := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	admin, err := the.As(gateUser)
	require.NoError(t, err)
	_, err = admin.Resource(r).Patch(t.Context(), "kausality", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kausality.io/removal":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}
