package site

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// StartProvider and its cloud: a provider on Crossplane's own managed reconciler,
// whose external resources are databases in a cloud of its own.
func (l *Site) StartProvider(t *testing.T) *client.Client {
	t.Helper()
	built, err := parts.Ensure(t.Context(), os.Stderr, "", parts.TestProvider)
	require.NoError(t, err)
	// The provider ends where a kind that it reconciles does not exist.
	for _, name := range []string{"cloud.example.org_databases.yaml", "rds.aws.crossplane.io_rdsinstances.yaml"} {
		crd, err := os.ReadFile(filepath.Join(l.Root, "test", "provider", "crds", name))
		require.NoError(t, err)
		require.NoError(t, l.Apply(t.Context(), crd))
	}
	port, err := controlplane.FreePort()
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	ctx := context.WithoutCancel(t.Context())
	_, err = l.Serve(ctx, "cloud", exec.Command(built["test-provider"], "cloud", "--address="+address))
	require.NoError(t, err)
	c := client.New("http://" + address)
	wait.For(t, "the cloud to answer", wait.Patience, c.Healthy)
	kubeconfig, err := l.ServiceAccountKubeconfig(t.Context(), "crossplane-system", "provider-cloud")
	require.NoError(t, err)
	cmd := exec.Command(built["test-provider"], "run", "--kubeconfig="+kubeconfig, "--cloud-url=http://"+address, "--poll-interval=1s",
		"--creation-grace-period=0s", "--max-requeue-delay=2s", "--max-reconcile-rate=100")
	cmd.Args[0] = "provider" // its field manager, as in a cluster
	_, err = l.Serve(ctx, "provider-cloud", cmd)
	require.NoError(t, err)
	return c
}

// Database of hans, new, guarded from the beginning.
func (l *Site) Database(t *testing.T, ns, name string) {
	t.Helper()
	o := Object("cloud.example.org/v1alpha1", "Database", ns, name, map[string]any{"forProvider": map[string]any{"size": int64(1)}})
	created, err := l.As(t, Hans).Resource(CloudDatabases).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	if created.GetAnnotations()["kausality.io/trace"] == "" {
		t.Errorf("Database %s was created without a trace", name)
	}
}

// PoliciesOf a database, and whether they are a mask.
func (l *Site) PoliciesOf(t *testing.T, ns, name string) (policies string, masked bool) {
	t.Helper()
	o, err := l.Admin.Resource(CloudDatabases).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	list, _, err := unstructured.NestedStringSlice(o.Object, "spec", "managementPolicies")
	require.NoError(t, err)
	_, masked = o.GetAnnotations()["kausality.io/management-policies"]
	return strings.Join(list, ","), masked
}

// Masked waits until a database was created in the cloud and its gate is closed.
func (l *Site) Masked(t *testing.T, ns, name string) {
	t.Helper()
	wait.For(t, "the gate of "+name+" to close", wait.Patience, func(context.Context) error {
		if p, masked := l.PoliciesOf(t, ns, name); !masked || p != "Observe" {
			return fmt.Errorf("managementPolicies are %s, masked %v", p, masked)
		}
		return nil
	})
}
