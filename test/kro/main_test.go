package kro

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
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
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/kro/graphs"
)

const (
	anna = graphs.Anna
	hans = graphs.Hans
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = graphs.ConfigMaps
	services   = graphs.Services
	branches   = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "branches"}
	farms      = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "farms"}
	herds      = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "herds"}
	shops      = graphs.Shops
)

var (
	the *graphs.Env
	// graph of most tests: with a ConfigMap, which has the message of its instance and a tier, and a Service.
	graph string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, bootShared))
}

// bootShared boots what all tests share.
func bootShared(ctx context.Context) (stop func(), err error) {
	the, err = graphs.Start(ctx, graphs.Options{
		Dir: os.Getenv("KAUSALITY_INTEGRATION_DIR"), Out: os.Stderr, Also: []string{"branches.kro.run", "farms.kro.run", "herds.kro.run"},
	})
	if err != nil {
		return the.Stop, err
	}
	raw, err := graphs.Example("graph.yaml")
	graph = string(raw)
	for _, text := range []string{graph, branch, farm, herd} {
		err = errors.Join(err, the.Write(ctx, []byte(text)))
	}
	return the.Stop, err
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
		if err := graphs.State(o, "ACTIVE"); err != nil {
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
