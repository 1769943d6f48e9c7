package changes

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
	"github.com/kausality-io/function-kausality/test/rights"
)

// TestUngateOpen: a resource that is ungated while its gate is open by an approval
// has used that approval, as if the gate had closed: it does not open the gate a
// second time after the resource is gated again.
func TestUngateOpen(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "ungated")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	parent, err := the.App(t, ns, "shop")
	require.NoError(t, err)
	cases := map[string]struct {
		resource       schema.GroupVersionResource
		database, held string
		parent         *unstructured.Unstructured
	}{
		"HeldByItsParent": {resource: site.Apps, database: "orders", held: "shop", parent: parent},
		"HeldByItself":    {resource: site.Databases, database: "alone", held: "alone"},
	}
	keys := map[string]string{}
	for name, tc := range cases {
		keys[name] = openByApproval(t, ns, tc.database, tc.parent, tc.resource, tc.held)
	}
	the.Gate.Stop()
	for name, tc := range cases {
		out, err := ungate(t, "databases.shop.example.org/"+ns+"/"+tc.database)
		if err != nil || !strings.Contains(out, "1 masked, 1 with pending external drift, 1 restored") {
			t.Errorf("%s: error %v: %s", name, err, out)
		}
		spent(t, tc.resource, ns, tc.held, keys[name])
	}
	require.NoError(t, the.Gate.Restart())
	require.NoError(t, the.Gate.Await(t.Context()))
	for _, tc := range cases {
		the.Observes(t, ns, tc.database, 9)
		the.ClosedGate(t, ns, tc.database) // it goes on, and takes it in again
	}
	rights.Show(t, the.AuditLog())
}

// openByApproval of external drift is the gate of a database that is made here; the
// approval's key, on who holds it.
func openByApproval(t *testing.T, ns, database string, parent *unstructured.Unstructured, r schema.GroupVersionResource, holder string) (key string) {
	t.Helper()
	the.Played(t, ns, database, parent)
	the.ClosedGate(t, ns, database)
	the.Observes(t, ns, database, 9)
	key = "kausality.io/approve-" + the.ExternalDrift(t, database)
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), r, ns, holder, site.Annotate(key, "once")))
	wait.For(t, "the gate to open", wait.Patience, func(ctx context.Context) error {
		g, _, _, err := the.GateOf(ctx, ns, database)
		if err == nil && (g.State != v1alpha1.GateOpen || g.Claim == "") {
			err = fmt.Errorf("it is %s by %q", g.State, g.Claim)
		}
		return err
	})
	return key
}

// ungate as the gate's own user.
func ungate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	kubeconfig, err := the.KubeconfigOf(t.Context(), "gate")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), the.Kausality, append([]string{"ungate", "--kubeconfig=" + kubeconfig}, args...)...).CombinedOutput()
	return string(out), err
}

// spent is an approval on its holder: the entry is gone, its record has state used.
func spent(t *testing.T, r schema.GroupVersionResource, ns, name, key string) {
	t.Helper()
	o, err := the.Admin.Resource(r).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	if v, ok := o.GetAnnotations()[key]; ok {
		t.Errorf("%s still has %s=%s", name, key, v)
	}
	var claims []v1alpha1.Claim
	require.NoError(t, json.Unmarshal([]byte(o.GetAnnotations()[v1alpha1.AnnotationKeyClaims]), &claims))
	if len(claims) != 1 || claims[0].State != v1alpha1.ClaimUsed {
		t.Errorf("the claims of %s are %+v", name, claims)
	}
}
