package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/installation"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// pods of a component, by UID: those that run are the same before and after
// where nothing had to be restarted.
func pods(t *testing.T, component string) string {
	t.Helper()
	list, err := the.Admin.Resource(site.Pods).Namespace(site.Home).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	require.NoError(t, err)
	var out []string
	for i := range list.Items {
		out = append(out, string(list.Items[i].GetUID()))
	}
	return strings.Join(out, " ")
}

// TestUpgrade: another version of the chart, with a value changed, upgrades the
// CRDs and replaces the Pods of the component that the value is of, and of no
// other; what is guarded stays guarded. The same once more does nothing.
func TestUpgrade(t *testing.T) {
	the.Absent(t)
	earlier, err := the.Earlier()
	require.NoError(t, err)
	require.NoError(t, the.Install(t.Context(), earlier))
	ns := the.Namespace(t, "upgraded")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	components := []string{"webhook", "controller", "gate"}
	before := map[string]string{}
	for _, c := range components {
		if before[c] = pods(t, c); before[c] == "" {
			t.Fatalf("the Deployment of %s has no Pods", c)
		}
	}
	hook, err := the.Admin.Resource(site.Hooks).Get(t.Context(), "kausality", metav1.GetOptions{})
	require.NoError(t, err)
	upgrade := []string{"upgrade", "kausality", the.Chart(), "--reuse-values", "--set", "gate.deadline=2h"}
	_, err = the.RunHelm(t.Context(), upgrade...)
	require.NoError(t, err)
	the.Release = the.Chart()
	wait.For(t, "new Pods of the gate", wait.Patience, func(context.Context) error {
		if now := pods(t, "gate"); now == before["gate"] {
			return errors.New("they are the old ones")
		}
		return nil
	})
	for _, c := range components[:2] {
		if now := pods(t, c); now != before[c] {
			t.Errorf("the Pods of %s were replaced: %s, before %s", c, now, before[c])
		}
	}
	crd, err := the.Admin.Resource(site.Definition).Get(t.Context(), "kausalities.kausality.io", metav1.GetOptions{})
	require.NoError(t, err)
	if versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions"); !strings.Contains(fmt.Sprint(versions), ".status.managedResources") {
		t.Error("the CRD is still that of the version before")
	}
	now, err := the.Admin.Resource(site.Hooks).Get(t.Context(), "kausality", metav1.GetOptions{})
	require.NoError(t, err)
	if now.GetUID() != hook.GetUID() {
		t.Error("the webhook configuration is another one")
	}
	the.Gate.Stop()
	the.Gate, err = the.StartComponent(t.Context(), "gate", 1)
	require.NoError(t, err)
	require.NoError(t, the.Gate.Await(t.Context()))
	if args, err := installation.Args(t.Context(), the.Admin, "gate"); err != nil || !strings.Contains(strings.Join(args, " "), "--gate-deadline=2h") {
		t.Errorf("the gate's arguments are %v, error %v", args, err)
	}
	the.Guarded(t, ns)
	settled := generations(t)
	_, err = the.RunHelm(t.Context(), upgrade...)
	require.NoError(t, err)
	if again := generations(t); again != settled {
		t.Errorf("the same upgrade once more changed %s, before %s", again, settled)
	}
}

// generations of all Deployments.
func generations(t *testing.T) string {
	t.Helper()
	list, err := the.Admin.Resource(site.Deployments).Namespace(site.Home).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	out := ""
	for i := range list.Items {
		out += fmt.Sprintf("%s %d\n", list.Items[i].GetName(), list.Items[i].GetGeneration())
	}
	return out
}
