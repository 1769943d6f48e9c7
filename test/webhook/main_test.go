package webhook

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/undecided"
)

// environment is what all tests share.
type environment struct {
	*controlplane.ControlPlane
	// kausality is the path of the binary under test.
	kausality string
	// kubeconfig of the webhook's ServiceAccount.
	kubeconfig string
	// certs is a directory with a serving certificate for loopback.
	certs string
	// template of the MutatingWebhookConfiguration, as our manifests have it.
	template *unstructured.Unstructured
}

var the *environment

// home is the namespace of the webhooks.
const home = "kausality-system"

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests mostly wait, for leases and for claims to be released; by default as
	// many run at once as there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(controlplane.Main(m, bootShared))
}

// bootShared boots what all tests share.
func bootShared(ctx context.Context) (stop func(), err error) {
	the, err = boot(ctx)
	if the.ControlPlane != nil {
		stop = the.Stop
	}
	return stop, err
}

// boot the control plane with our manifests, for the groups of all fleets.
func boot(ctx context.Context) (*environment, error) {
	l := &environment{}
	built, err := parts.Ensure(ctx, os.Stderr, "", parts.Kausality)
	if err != nil {
		return l, err
	}
	l.kausality = built["kausality"]
	l.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stderr, Dir: os.Getenv("KAUSALITY_INTEGRATION_DIR"),
		AuditLog: true, AuditGroups: []string{derivedFleet + groupSuffix}})
	if err != nil {
		return l, err
	}
	l.certs = filepath.Join(l.Dir(), "webhook-certs")
	if err := l.CA().ServingCert(l.certs); err != nil {
		return l, err
	}
	if err := l.install(ctx); err != nil {
		return l, err
	}
	// Leases are in the fleets' namespaces here, everything else comes from the manifests.
	l.kubeconfig, err = l.ServiceAccountKubeconfig(ctx, home, "kausality-webhook",
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}})
	return l, err
}

// install what `kausality manifests` prints, but for the webhook configuration,
// and the CRDs of all fleets.
func (l *environment) install(ctx context.Context) error {
	resources := []string{"deployments.apps", "replicasets.apps", "statefulsets.apps", "pods", "jobs.batch", "cronjobs.batch", "secrets"}
	var kinds []controlplane.Kind
	for _, f := range fleets {
		resources = append(resources, "*."+f+groupSuffix)
		kinds = append(kinds, kindsOf(f+groupSuffix)...)
	}
	if err := l.Define(ctx, kinds...); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, l.kausality, "manifests", "--webhook-url=https://127.0.0.1:1", "--ca-file="+filepath.Join(l.certs, "ca.crt"),
		"--resources="+strings.Join(resources, ","), "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality manifests: %w", err)
	}
	objects, err := controlplane.Decode(out)
	if err != nil {
		return err
	}
	rest := make([]any, 0, len(objects))
	for _, o := range objects {
		if o.GetKind() == "MutatingWebhookConfiguration" {
			l.template = o
			continue
		}
		rest = append(rest, o)
	}
	a, err := controlplane.NewApplier(l.Config(), "kubectl")
	if err != nil {
		return err
	}
	return a.Objects(ctx, rest...)
}

// as is a client that is a user. Its field manager is the last part of the
// user's name, as it would be the program's.
func (l *environment) as(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	config := l.ConfigAsMaster(user)
	config.Wrap(undecided.Transport)
	c, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return c
}
