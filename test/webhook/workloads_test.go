package webhook

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

func evict(name, ns string) *policyv1.Eviction {
	return &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}}
}

// testStatefulSet: its Pods are created, replaced, and follow a user's rollout.
func testStatefulSet(t *testing.T, c *cluster) {
	two := int32(2)
	sets := c.hans.AppsV1().StatefulSets(c.ns)
	_, err := sets.Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: &two, ServiceName: "db", Template: template("db"),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	ready := func(n int32) {
		t.Helper()
		wait.For(t, "the StatefulSet", 30*time.Second, func(ctx context.Context) error {
			s, err := sets.Get(ctx, "db", metav1.GetOptions{})
			if err == nil && (s.Status.ObservedGeneration < s.Generation || s.Status.ReadyReplicas != n || s.Status.UpdatedReplicas != n) {
				err = fmt.Errorf("%+v", s.Status)
			}
			return err
		})
	}
	ready(2)
	wait.For(t, "the latch of the StatefulSet", wait.Patience, func(ctx context.Context) error {
		s, err := sets.Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return latched(untyped(t, s))
	})
	c.podReplaced("db-1")
	_, err = sets.Patch(t.Context(), "db", types.MergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2.invalid/c"}]}}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	ready(2)
}

func (c *cluster) podReplaced(name string) {
	c.t.Helper()
	pods := c.hans.CoreV1().Pods(c.ns)
	old, err := pods.Get(c.t.Context(), name, metav1.GetOptions{})
	require.NoError(c.t, err)
	require.NoError(c.t, pods.Delete(c.t.Context(), name, metav1.DeleteOptions{}))
	wait.For(c.t, "Pod "+name+" to be replaced", wait.Patience, func(ctx context.Context) error {
		p, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err == nil && p.UID == old.UID {
			err = errors.New("it is the old one")
		}
		return err
	})
}

// testCronJob: the controller's first run, and the next after everything
// settled.
func testCronJob(t *testing.T, c *cluster) {
	jobs := c.hans.BatchV1().CronJobs(c.ns)
	cron, err := jobs.Create(t.Context(), &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "tick"},
		Spec: batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: template("tick").Spec.Containers}}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	manager, err := kubernetes.NewForConfig(the.ConfigAsMaster(cronJobController))
	require.NoError(t, err)
	// It was last run a while ago: a run is due at once.
	body := fmt.Appendf(nil, `{"status":{"lastScheduleTime":%q}}`, time.Now().Add(-3*time.Minute).UTC().Format(time.RFC3339))
	_, err = manager.BatchV1().CronJobs(c.ns).Patch(t.Context(), "tick", types.MergePatchType, body, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	wait.For(t, "the Job of the CronJob and its Pod", 30*time.Second, func(ctx context.Context) error {
		list, err := c.hans.BatchV1().Jobs(c.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods, err := c.hans.CoreV1().Pods(c.ns).List(ctx, metav1.ListOptions{})
		if err == nil && (len(list.Items) == 0 || len(pods.Items) == 0) {
			err = fmt.Errorf("%d Jobs, %d Pods", len(list.Items), len(pods.Items))
		}
		return err
	})
	// A CronJob reports no generation: it observed the one it had when its status
	// was last written, which only the replica knows that saw the write. So it
	// settles with one of the next writes, which every run makes.
	wait.For(t, "the latch of the CronJob", wait.Patience, func(ctx context.Context) error {
		done := fmt.Appendf(nil, `{"status":{"lastSuccessfulTime":%q}}`, time.Now().UTC().Format(time.RFC3339))
		if _, err := manager.BatchV1().CronJobs(c.ns).Patch(ctx, "tick", types.MergePatchType, done, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
		o, err := jobs.Get(ctx, "tick", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return latched(untyped(t, o))
	})
	next := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "tick-next", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob")),
	}}, Spec: cron.Spec.JobTemplate.Spec}
	if _, err = manager.BatchV1().Jobs(c.ns).Create(t.Context(), next, metav1.CreateOptions{}); err != nil {
		t.Errorf("the next run of a settled CronJob: %v", err)
	}
}

// testCollection: the garbage collector is never refused, in either order.
func testCollection(t *testing.T, c *cluster) {
	for name, policy := range map[string]metav1.DeletionPropagation{
		"background": metav1.DeletePropagationBackground, "foreground": metav1.DeletePropagationForeground,
	} {
		c.deployment(name, 2)
		c.rolledOut(name, 2)
		c.latched(name)
		require.NoError(t, c.hans.AppsV1().Deployments(c.ns).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
		wait.For(t, "everything of Deployment "+name+" to be collected", 40*time.Second, func(ctx context.Context) error {
			_, err := c.hans.AppsV1().Deployments(c.ns).Get(ctx, name, metav1.GetOptions{})
			if !kerrors.IsNotFound(err) {
				return fmt.Errorf("the Deployment is still there: %w", err)
			}
			pods, err := c.hans.CoreV1().Pods(c.ns).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			if all, _ := c.replicaSets(name); err == nil && len(all)+len(pods.Items) > 0 {
				err = fmt.Errorf("%d ReplicaSets and %d Pods are left", len(all), len(pods.Items))
			}
			return err
		})
	}
}

// testNamespaceDeletion: a namespace full of settled workloads can be deleted.
func testNamespaceDeletion(t *testing.T, c *cluster) {
	c.deployment("web", 2)
	c.rolledOut("web", 2)
	c.latched("web")
	require.NoError(t, c.hans.CoreV1().Namespaces().Delete(t.Context(), c.ns, metav1.DeleteOptions{}))
	wait.For(t, "the namespace to be gone", 60*time.Second, func(ctx context.Context) error {
		ns, err := c.hans.CoreV1().Namespaces().Get(ctx, c.ns, metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is still there: %+v", ns.Status.Conditions)
		}
		return err
	})
}
