package external

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

const (
	hans = "hans@example.com"
	home = "kausality-system"
)

var (
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	rules        = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "approvalrules"}
	drifts       = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "drifts"}
	terraforms   = schema.GroupVersionResource{Group: "infra.contrib.fluxcd.io", Version: "v1alpha2", Resource: "terraforms"}
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
)

var the *controlplane.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, bootShared))
}

// bootShared boots what all tests share.
func bootShared(ctx context.Context) (stop func(), err error) {
	the, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stderr, Dir: os.Getenv("KAUSALITY_INTEGRATION_DIR")})
	if the == nil {
		return nil, err
	}
	if err == nil {
		err = install(ctx)
	}
	return the.Stop, err
}

// install the kinds, our manifests, the webhook and the gate.
func install(ctx context.Context) error {
	built, err := parts.Ensure(ctx, os.Stderr, "", parts.Kausality)
	if err != nil {
		return err
	}
	if err := installKinds(ctx); err != nil {
		return err
	}
	certs := filepath.Join(the.Dir(), "webhook-certs")
	if err := the.CA().ServingCert(certs); err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, built["kausality"], "manifests", fmt.Sprintf("--webhook-url=https://127.0.0.1:%d", port),
		"--ca-file="+filepath.Join(certs, "ca.crt"), "--resources=terraforms.infra.contrib.fluxcd.io,applications.argoproj.io", "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality manifests: %w", err)
	}
	if err := the.Apply(ctx, out); err != nil {
		return err
	}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: claimsKey}, Data: map[string][]byte{
		"key": []byte(rand.Text() + rand.Text())}}
	client, err := kubernetes.NewForConfig(the.Config())
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Secrets(home).Create(ctx, key, metav1.CreateOptions{}); err != nil {
		return err
	}
	keyed := "--claims-key=" + home + "/" + claimsKey
	if err := component(ctx, built["kausality"], "webhook", fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--cert-dir="+certs, keyed); err != nil {
		return err
	}
	return component(ctx, built["kausality"], "gate", "--creation-grace=0s", keyed)
}

func installKinds(ctx context.Context) error {
	all, err := parts.ArgoCD.CRDs(ctx)
	if err != nil {
		return err
	}
	for _, doc := range bytes.Split(all, []byte("\n---\n")) {
		if bytes.Contains(doc, []byte("  name: applications.argoproj.io\n")) {
			if err := the.Apply(ctx, doc); err != nil {
				return err
			}
		}
	}
	own, err := os.ReadFile("testdata/terraforms.yaml")
	if err != nil {
		return err
	}
	return the.Apply(ctx, own)
}

func component(ctx context.Context, binary, name string, args ...string) error {
	probe, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	kubeconfig, err := the.ServiceAccountKubeconfig(ctx, home, "kausality-"+name, readsKey)
	if err != nil {
		return err
	}
	args = append([]string{name, "--kubeconfig=" + kubeconfig, "--default-mode=enforce", fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", probe)}, args...)
	if _, err := the.Run(ctx, "kausality-"+name, exec.Command(binary, args...)); err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "the "+name+" to be ready", 60*time.Second, func(ctx context.Context) error {
		return controlplane.Answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", probe))
	})
}

// as is a client that is a user; its field manager is the last part of its name.
func as(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(the.ConfigAsMaster(user))
	require.NoError(t, err)
	return c
}

// runs of namespace, so that a test can be repeated.
var runs atomic.Int64

// namespace of a test's own; the name begins as given.
func namespace(t *testing.T, name string) string {
	t.Helper()
	name = fmt.Sprintf("%s-%d", name, runs.Add(1))
	_, err := as(t, hans).Resource(namespaces).Create(t.Context(), object("v1", "Namespace", "", name, nil), metav1.CreateOptions{})
	require.NoError(t, err)
	return name
}
