package derived

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/kro/graphs"
)

const (
	anna = graphs.Anna
	hans = graphs.Hans
)

var (
	gardens     = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "gardens"}
	allowances  = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "allowancepolicies"}
	kausalities = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "kausalities"}
	events      = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
)

var the *graphs.Env

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, func(ctx context.Context) (stop func(), err error) {
		the, err = graphs.Start(ctx, graphs.Options{Dir: os.Getenv("KAUSALITY_INTEGRATION_DIR"), Out: os.Stderr, Chart: true, Recorded: []string{"kro.run", `""`}})
		if err == nil {
			err = guard(ctx)
		}
		return the.Stop, err
	}))
}

// guard what the graphs of the tests make, and derive their policies.
func guard(ctx context.Context) error {
	if err := the.Apply(ctx, []byte(`
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: graphs}
spec:
  mode: enforce
  derivePolicies: true
  resources:
  - {apiGroups: [kro.run], resources: ["*"]}
  - {apiGroups: [""], resources: [configmaps, services]}
`)); err != nil {
		return err
	}
	c, err := the.As(anna)
	if err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "the policy to be in force", time.Minute, func(ctx context.Context) error {
		o, err := c.Resource(kausalities).Get(ctx, "graphs", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return controlplane.ConditionTrue(o, "WebhookConfigured")
	})
}

// as is a client that is a user; its field manager is the last part of its name.
func as(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	c, err := the.As(user)
	require.NoError(t, err)
	return c
}

// patch an object in Namespace default, or without one.
func patch(t *testing.T, user string, r schema.GroupVersionResource, namespace, name, body string) *unstructured.Unstructured {
	t.Helper()
	o, err := as(t, user).Resource(r).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	require.NoError(t, err)
	return o
}

// settled waits until a garden is active at its generation.
func settled(t *testing.T, name string) {
	t.Helper()
	wait.For(t, name+" to be active", time.Minute, func(ctx context.Context) error {
		o, err := as(t, hans).Resource(gardens).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if at := o.GetAnnotations()["kausality.io/settled-generation"]; at != fmt.Sprint(o.GetGeneration()) {
			return fmt.Errorf("settled at %q of %d: %v", at, o.GetGeneration(), o.Object["status"])
		}
		return graphs.State(o, "ACTIVE")
	})
}

var errNotYet = errors.New("not yet")

// derivedPolicy waits until a policy is of a generation of its graph, and returns it with the time that took.
func derivedPolicy(t *testing.T, name string, generation int64, reason string) (*unstructured.Unstructured, time.Duration) {
	t.Helper()
	begun := time.Now()
	var out *unstructured.Unstructured
	wait.For(t, "the policy "+name, 30*time.Second, func(ctx context.Context) (err error) {
		if out, err = as(t, anna).Resource(allowances).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(out.Object, "status", "conditions")
		for _, e := range conditions {
			c, _ := e.(map[string]any)
			message, _ := c["message"].(string)
			if c["type"] == "Derived" && c["reason"] == reason && containsGeneration(message, generation) {
				return nil
			}
		}
		return fmt.Errorf("%w: %v", errNotYet, conditions)
	})
	return out, time.Since(begun)
}
