package kro

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// Users: anna writes graphs, hans an instance.
const (
	anna = "anna@example.com"
	hans = "hans@example.com"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	graphs     = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "resourcegraphdefinitions"}
	farms      = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "farms"}
	shops      = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "shops"}
)

var the *controlplane.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, bootShared))
}

// bootShared boots what all tests share.
func bootShared(ctx context.Context) (stop func(), err error) {
	the, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stderr, Dir: os.Getenv("KAUSALITY_INTEGRATION_DIR"), Kro: true})
	if the == nil {
		return nil, err
	}
	if err == nil {
		err = errors.Join(installGraph(ctx, "shop", graph), installGraph(ctx, "farm", farm))
	}
	if err == nil {
		err = installKausality(ctx)
	}
	return the.Stop, err
}

// graph is one with two children: a ConfigMap with the message of its instance, and a Service.
const graph = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shop}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    spec: {message: string}
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
      data: {message: "${schema.spec.message}", tier: silver}
  - id: service
    template:
      apiVersion: v1
      kind: Service
      metadata: {name: "${schema.metadata.name}"}
      spec: {ports: [{port: 80, protocol: TCP, targetPort: 8080}], selector: {app: "${schema.metadata.name}"}}
`

// installGraph applies a graph, and waits until kro serves its kind.
func installGraph(ctx context.Context, name, text string) error {
	if err := the.Apply(ctx, []byte(text)); err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(the.ConfigAsMaster(anna))
	if err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "graph "+name+" to be active", 30*time.Second, func(ctx context.Context) error {
		o, err := c.Resource(graphs).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return state(o, "Active")
	})
}

// guarded are the resources of the tests' policy.
const guarded = "shops.kro.run,farms.kro.run,resourcegraphdefinitions.kro.run,configmaps,services"

// installKausality installs the webhook, which enforces.
func installKausality(ctx context.Context) error {
	built, err := parts.Ensure(ctx, os.Stderr, "", parts.Kausality)
	if err != nil {
		return err
	}
	certs := filepath.Join(the.Dir(), "webhook-certs")
	if err := the.CA().ServingCert(certs); err != nil {
		return err
	}
	ports := [2]int{}
	for i := range ports {
		if ports[i], err = controlplane.FreePort(); err != nil {
			return err
		}
	}
	out, err := exec.CommandContext(ctx, built[parts.Kausality], "manifests", fmt.Sprintf("--webhook-url=https://127.0.0.1:%d", ports[0]),
		"--ca-file="+filepath.Join(certs, "ca.crt"), "--resources="+guarded, "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality manifests: %w", err)
	}
	if err := the.Apply(ctx, out); err != nil {
		return err
	}
	kubeconfig, err := the.ServiceAccountKubeconfig(ctx, "kausality-system", "kausality-webhook")
	if err != nil {
		return err
	}
	if _, err := the.Run(ctx, "kausality-webhook", exec.Command(built[parts.Kausality], "webhook", "--kubeconfig="+kubeconfig, "--default-mode=enforce",
		fmt.Sprintf("--bind-address=127.0.0.1:%d", ports[0]), fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", ports[1]),
		"--cert-dir="+certs)); err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "the webhook to be ready", 60*time.Second, func(ctx context.Context) error {
		return controlplane.Answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1]))
	})
}

// state returns an error unless an object of kro is in a state.
func state(o *unstructured.Unstructured, want string) error {
	if is, _, _ := unstructured.NestedString(o.Object, "status", "state"); is != want {
		return fmt.Errorf("%s is %q: %v", o.GetName(), is, o.Object["status"])
	}
	return nil
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
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	o.SetName(fmt.Sprintf("%s-%d", name, runs.Add(1)))
	_, err := as(t, anna).Resource(namespaces).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return o.GetName()
}

// shop creates an instance as hans, and returns it once kro has created its children.
func shop(t *testing.T, ns, message string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"message": message}}}
	o.SetAPIVersion("kro.run/v1alpha1")
	o.SetKind("Shop")
	o.SetName("db")
	_, err := as(t, hans).Resource(shops).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return active(t, ns)
}

// active returns the instance of a namespace once it is active at its generation.
func active(t *testing.T, ns string) *unstructured.Unstructured {
	t.Helper()
	var o *unstructured.Unstructured
	wait.For(t, "the instance to be active", 30*time.Second, func(ctx context.Context) (err error) {
		if o, err = as(t, hans).Resource(shops).Namespace(ns).Get(ctx, "db", metav1.GetOptions{}); err != nil {
			return err
		}
		if err := state(o, "ACTIVE"); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, e := range conditions {
			c, _ := e.(map[string]any)
			if c["type"] == "Ready" && c["status"] == "True" && c["observedGeneration"] == o.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("not ready at generation %d: %v", o.GetGeneration(), conditions)
	})
	return o
}

// decode YAML or JSON.
func decode(text string, into any) error { return yaml.Unmarshal([]byte(text), into) }
