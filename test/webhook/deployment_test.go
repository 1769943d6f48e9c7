package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const (
	deploymentController = "system:serviceaccount:kube-system:deployment-controller"
	cronJobController    = "system:serviceaccount:kube-system:cronjob-controller"
)

var workloads = []string{"apps/deployments", "apps/replicasets", "apps/statefulsets", "/pods", "batch/jobs", "batch/cronjobs"}

// cluster is a namespace with workloads under enforce, and its users.
type cluster struct {
	t  *testing.T
	ns string
	// hans is a user, manager the deployment controller.
	hans, manager kubernetes.Interface
}

func newCluster(t *testing.T, f *fleet, ns string) *cluster {
	t.Helper()
	c := &cluster{t: t, ns: f.namespace(ns, true)}
	var err error
	c.hans, err = kubernetes.NewForConfig(the.ConfigAsMaster(hans))
	require.NoError(t, err)
	c.manager, err = kubernetes.NewForConfig(the.ConfigAsMaster(deploymentController))
	require.NoError(t, err)
	kubelet(t, c.ns)
	return c
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1.invalid/c"}}},
	}
}

func (c *cluster) deployment(name string, replicas int32) {
	c.t.Helper()
	_, err := c.hans.AppsV1().Deployments(c.ns).Create(c.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name)},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) patch(name, body string) error {
	_, err := c.hans.AppsV1().Deployments(c.ns).Patch(c.t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

// rolledOut waits until the Deployment has n ready replicas of its newest
// template and no others.
func (c *cluster) rolledOut(name string, n int32) {
	c.t.Helper()
	wait.For(c.t, fmt.Sprintf("Deployment %s to have %d replicas", name, n), 40*time.Second, func(ctx context.Context) error {
		d, err := c.hans.AppsV1().Deployments(c.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			return fmt.Errorf("generation %d: %+v; %v", d.Generation, s, d.Annotations)
		}
		return nil
	})
}

func (c *cluster) latched(name string) {
	c.t.Helper()
	wait.For(c.t, "the latch of Deployment "+name, wait.Patience, func(ctx context.Context) error {
		d, err := c.hans.AppsV1().Deployments(c.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return latched(untyped(c.t, d))
	})
}

func untyped(t *testing.T, o any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: content}
}

// replicaSets of a Deployment with more than no replicas.
func (c *cluster) replicaSets(app string) (all, running []appsv1.ReplicaSet) {
	c.t.Helper()
	list, err := c.hans.AppsV1().ReplicaSets(c.ns).List(c.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	require.NoError(c.t, err)
	for _, rs := range list.Items {
		if *rs.Spec.Replicas > 0 {
			running = append(running, rs)
		}
	}
	return list.Items, running
}

// scaleRS as the deployment controller does.
func (c *cluster) scaleRS(rs appsv1.ReplicaSet, n int) error {
	_, err := c.manager.AppsV1().ReplicaSets(c.ns).Patch(c.t.Context(), rs.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{})
	return err
}

// TestDeployment: a rollout under enforce completes, what the controller does
// afterwards on its own is drift, and changes by users pass.
func TestDeployment(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "strict", options{replicas: 2, resources: workloads})
	t.Run("Rollout", func(t *testing.T) { t.Parallel(); testRollout(t, newCluster(t, f, "rollout")) })
	t.Run("StatefulSet", func(t *testing.T) { t.Parallel(); testStatefulSet(t, newCluster(t, f, "stateful")) })
	t.Run("CronJob", func(t *testing.T) { t.Parallel(); testCronJob(t, newCluster(t, f, "cron")) })
	t.Run("Collection", func(t *testing.T) { t.Parallel(); testCollection(t, newCluster(t, f, "collection")) })
	t.Run("NamespaceDeletion", func(t *testing.T) { t.Parallel(); testNamespaceDeletion(t, newCluster(t, f, "doomed")) })
}

func testRollout(t *testing.T, c *cluster) {
	c.deployment("web", 4)
	c.rolledOut("web", 4)
	c.latched("web")
	require.NoError(t, c.patch("web", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2.invalid/c"}]}}}}`))
	c.rolledOut("web", 4)
	c.latched("web")
	all, running := c.replicaSets("web")
	if len(all) != 2 || len(running) != 1 {
		t.Fatalf("%d ReplicaSets of which %d run, want 2 and 1", len(all), len(running))
	}
	mustRefuse(t, c.scaleRS(running[0], 2), "Drift")

	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // as kubectl scale does
		s, err := c.hans.AppsV1().Deployments(c.ns).GetScale(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Spec.Replicas = 6
		_, err = c.hans.AppsV1().Deployments(c.ns).UpdateScale(t.Context(), "web", s, metav1.UpdateOptions{})
		return err
	}))
	c.rolledOut("web", 6)
	c.scaledBy("web", hans)
	c.latched("web")
	_, running = c.replicaSets("web")
	mustRefuse(t, c.scaleRS(running[0], 2), "Drift")

	c.replaced("web", 6)
	require.NoError(t, c.patch("web", `{"spec":{"revisionHistoryLimit":0}}`))
	wait.For(t, "the old ReplicaSet to be cleaned up", wait.Patience, func(context.Context) error {
		if all, _ := c.replicaSets("web"); len(all) != 1 {
			return fmt.Errorf("there are %d ReplicaSets", len(all))
		}
		return nil
	})
}

// scaledBy waits for the hop of an intent through /scale, and for what follows
// from it to lead back to that user.
func (c *cluster) scaledBy(name, user string) {
	c.t.Helper()
	wait.For(c.t, "the hop of the scale", wait.Patience, func(ctx context.Context) error {
		d, err := c.hans.AppsV1().Deployments(c.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		hop, err := hopOf(untyped(c.t, d))
		if err == nil && (hop.User != user || hop.Unattributed || hop.Generation < 3) {
			err = fmt.Errorf("the hop is %+v", hop)
		}
		return err
	})
	_, running := c.replicaSets(name)
	var hops []v1alpha1.Hop
	require.NoError(c.t, json.Unmarshal([]byte(running[0].Annotations[v1alpha1.AnnotationKeyTrace]), &hops))
	if len(hops) != 2 || hops[0].User != user {
		c.t.Errorf("the ReplicaSet's trace does not lead to %s: %+v", user, hops)
	}
}

// replaced: a Pod that is evicted and one that is deleted are replaced, long
// after everything settled.
func (c *cluster) replaced(app string, n int) {
	c.t.Helper()
	pods, err := c.hans.CoreV1().Pods(c.ns).List(c.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	require.NoError(c.t, err)
	require.NoError(c.t, c.hans.CoreV1().Pods(c.ns).EvictV1(c.t.Context(), evict(pods.Items[0].Name, c.ns)))
	require.NoError(c.t, c.hans.CoreV1().Pods(c.ns).Delete(c.t.Context(), pods.Items[1].Name, metav1.DeleteOptions{}))
	wait.For(c.t, "the Pods to be replaced", wait.Patience, func(ctx context.Context) error {
		now, err := c.hans.CoreV1().Pods(c.ns).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		ready := 0
		for _, p := range now.Items {
			if p.Name == pods.Items[0].Name || p.Name == pods.Items[1].Name {
				return fmt.Errorf("pod %s is still there", p.Name)
			}
			if p.Status.Phase == corev1.PodRunning {
				ready++
			}
		}
		if ready != n {
			return fmt.Errorf("%d Pods run, want %d", ready, n)
		}
		return nil
	})
}
