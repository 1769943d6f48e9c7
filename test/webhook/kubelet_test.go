package webhook

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const readyStatus = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

// kubelet lets the Pods of a namespace be ready, as long as the test runs.
func kubelet(t *testing.T, ns string) {
	t.Helper()
	cs, err := kubernetes.NewForConfig(the.ConfigAsMaster("system:node:fake"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				runPods(ctx, cs, ns)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func runPods(ctx context.Context, cs kubernetes.Interface, ns string) {
	pods, err := cs.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodRunning {
			_, _ = cs.CoreV1().Pods(ns).Patch(ctx, p.Name, types.MergePatchType, []byte(readyStatus), metav1.PatchOptions{}, "status") // gone, or the next time
		}
	}
}
