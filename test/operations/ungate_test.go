package operations

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
)

var driftResource = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "drifts"}

// TestUngateOpen: a resource that is ungated while its gate is open by an approval
// has used that approval, as if the gate had closed: it does not open the gate a
// second time after the resource is gated again.
func TestUngateOpen(t *testing.T) {
	ns := namespace(t, "ungated")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	parent, err := app(t, ns, "shop")
	require.NoError(t, err)
	cases := map[string]struct {
		resource       schema.GroupVersionResource
		database, held string
		parent         *unstructured.Unstructured
	}{
		"HeldByItsParent": {resource: apps, database: "orders", held: "shop", parent: parent},
		"HeldByItself":    {resource: databases, database: "alone", held: "alone"},
	}
	keys := map[string]string{}
	for name, tc := range cases {
		keys[name] = openByApproval(t, ns, tc.database, tc.parent, tc.resource, tc.held)
	}
	the.gate.Stop()
	for name, tc := range cases {
		out, err := the.ungate(t, "databases.shop.example.org/"+ns+"/"+tc.database)
		if err != nil || !strings.Contains(out, "1 masked, 1 with pending external drift, 1 restored") {
			t.Errorf("%s: error %v: %s", name, err, out)
		}
		spent(t, tc.resource, ns, tc.held, keys[name])
	}
	require.NoError(t, the.gate.Restart())
	require.NoError(t, the.gate.Await(t.Context()))
	for _, tc := range cases {
		observes(t, ns, tc.database, 9)
		closedGate(t, ns, tc.database) // it goes on, and takes it in again
	}
}

// openByApproval of external drift is the gate of a database that is made here; the
// approval's key, on who holds it.
func openByApproval(t *testing.T, ns, database string, parent *unstructured.Unstructured, r schema.GroupVersionResource, holder string) (key string) {
	t.Helper()
	played(t, ns, database, parent)
	closedGate(t, ns, database)
	observes(t, ns, database, 9)
	key = "kausality.io/approve-" + externalDrift(t, database)
	require.NoError(t, merge(t, as(t, hans), r, ns, holder, annotate(key, "once")))
	wait.For(t, "the gate to open", wait.Patience, func(ctx context.Context) error {
		g, _, _, err := gateOf(ctx, ns, database)
		if err == nil && (g.State != v1alpha1.GateOpen || g.Claim == "") {
			err = fmt.Errorf("it is %s by %q", g.State, g.Claim)
		}
		return err
	})
	return key
}

// ungate as the gate's own user.
func (l *environment) ungate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	kubeconfig, err := l.kubeconfig(t.Context(), "gate")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), l.kausality, append([]string{"ungate", "--kubeconfig=" + kubeconfig}, args...)...).CombinedOutput()
	return string(out), err
}

// externalDrift of an object that was detected and not resolved: its id.
func externalDrift(t *testing.T, child string) (id string) {
	t.Helper()
	wait.For(t, "the Drift of "+child, wait.Patience, func(ctx context.Context) error {
		list, err := the.admin.Resource(driftResource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			name, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "child", "name")
			relation, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "relation")
			if id, _, _ = unstructured.NestedString(list.Items[i].Object, "spec", "id"); name == child && relation == "External" {
				return nil
			}
		}
		return fmt.Errorf("there is none of %d", len(list.Items))
	})
	return id
}

// spent is an approval on its holder: the entry is gone, its record has state used.
func spent(t *testing.T, r schema.GroupVersionResource, ns, name, key string) {
	t.Helper()
	o, err := the.admin.Resource(r).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
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
