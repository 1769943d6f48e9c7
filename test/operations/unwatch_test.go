package operations

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

const shopGroup = "shop.example.org"

// watchRequests of our components for the resources of a group since a moment:
// the watches that were opened, each once, and the requests that were refused.
func watchRequests(t *testing.T, group string, since time.Time) (watches, refused []string) {
	t.Helper()
	the.Requests(t, func(e site.Request) {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		if !strings.HasPrefix(path, "/apis/"+group+"/") || e.RequestReceivedTimestamp.Before(since) || !e.Looks() {
			return
		}
		component := strings.TrimPrefix(e.User.Username, "system:serviceaccount:"+site.Home+":kausality-")
		what := component + " " + path[strings.LastIndex(path, "/")+1:]
		switch {
		case e.ResponseStatus.Code == 403:
			refused = append(refused, what)
		case e.Verb == "watch" && e.ResponseStatus.Code == 200 && !slices.Contains(watches, what):
			watches = append(watches, what)
		}
	})
	slices.Sort(watches)
	return watches, refused
}

// watched waits until webhook and gate have opened their watches of a group.
func watched(t *testing.T, group string, since time.Time, want ...string) {
	t.Helper()
	wait.For(t, "what is guarded to be watched", wait.Patience, func(context.Context) error {
		if open, _ := watchRequests(t, group, since); !slices.Equal(open, want) { // a role may take a moment to come through
			return fmt.Errorf("watched are %v", open)
		}
		return nil
	})
}

// without access of ours to a group.
func without(t *testing.T, group string) {
	t.Helper()
	for _, role := range []string{"kausality-gate-policies", "kausality-controller-policies", "kausality-webhook-policies"} {
		wait.For(t, "the access of "+role+" to go", wait.Patience, func(ctx context.Context) error {
			o, err := the.Admin.Resource(site.Roles).Get(ctx, role, metav1.GetOptions{})
			if kerrors.IsNotFound(err) {
				return nil
			}
			if err == nil && strings.Contains(fmt.Sprint(o.Object["rules"]), group) {
				err = fmt.Errorf("it still is %v", o.Object["rules"])
			}
			return err
		})
	}
}

// TestUnwatch: kinds that no policy covers any more are unwatched, and no component
// goes on requesting what it may not read; with a policy the watches are opened
// again. The connections are cut to see it: an existing watch is requested again.
func TestUnwatch(t *testing.T) {
	cases := map[string]struct {
		reason string
		leave  func(t *testing.T)
	}{
		"LastPolicy": {reason: "with the last policy the configuration goes, too", leave: func(t *testing.T) {
			require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "shop", site.Forget))
		}},
		"OtherStays": {reason: "another group is guarded still", leave: func(t *testing.T) {
			require.NoError(t, site.Merge(t, the.Admin, site.Kausality, "", "shop", elsewhere))
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns, since := the.Namespace(t, "unwatch-"+strings.ToLower(name)), time.Now()
			the.Policy(t, "shop", map[string]any{"mode": "enforce"})
			the.Guarded(t, ns)
			owner, err := the.App(t, ns, "owner")
			require.NoError(t, err)
			the.Played(t, ns, "orders", owner)
			the.ClosedGate(t, ns, "orders")
			drifts(t, ns, owner)
			awaitDriftPhase(t, ns, v1alpha1.DriftDetected, "")
			all := []string{"gate apps", "gate databases", "webhook apps", "webhook databases"}
			the.Line.Cut()
			watched(t, shopGroup, since, all...)
			tc.leave(t)
			the.RestoredTo(t, ns, "orders", "*")
			without(t, shopGroup)
			awaitDriftPhase(t, ns, v1alpha1.DriftResolved, "its kind is no longer guarded")
			quiet(t, tc.reason)
		})
	}
}

// drifts has the controller of an app make an unrequested change of a child, which
// is refused.
func drifts(t *testing.T, ns string, owner *unstructured.Unstructured) {
	t.Helper()
	controller := the.As(t, "system:serviceaccount:apps:controller")
	child := site.Object("shop.example.org/v1", "App", ns, "child", map[string]any{"size": int64(1)})
	yes := true
	child.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(),
		UID: owner.GetUID(), Controller: &yes}})
	_, err := controller.Resource(site.Apps).Namespace(ns).Create(t.Context(), child, metav1.CreateOptions{})
	require.NoError(t, err)
	body := fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"conditions":[{"type":"Ready","status":"True","reason":"Any","lastTransitionTime":%q}]}}`,
		owner.GetGeneration(), time.Now().UTC().Format(time.RFC3339))
	_, err = controller.Resource(site.Apps).Namespace(ns).Patch(t.Context(), owner.GetName(), types.MergePatchType, body, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	size := int64(1)
	wait.For(t, "the controller to be refused", wait.Patience, func(context.Context) error {
		size++
		if err := site.Merge(t, controller, site.Apps, ns, "child", map[string]any{"spec": map[string]any{"size": size}}); !kerrors.IsForbidden(err) &&
			!kerrors.IsInvalid(err) {
			return fmt.Errorf("the answer is %v", err) //nolint:errorlint // nil is an answer, too
		}
		return nil
	})
}

// awaitDriftPhase waits until the one Drift in a Namespace is in a phase, with a
// resolution; "" for any.
func awaitDriftPhase(t *testing.T, ns string, phase v1alpha1.DriftPhase, why string) {
	t.Helper()
	wait.For(t, "the Drift to be "+string(phase), wait.Patience, func(ctx context.Context) error {
		list, err := the.Admin.Resource(site.Drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			in, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "child", "namespace")
			status, _, _ := unstructured.NestedMap(list.Items[i].Object, "status")
			if in == ns && status["phase"] == string(phase) && (why == "" || status["resolution"] == why) {
				return nil
			}
			if in == ns {
				err = fmt.Errorf("its status is %v", status)
			}
		}
		return cmp.Or(err, fmt.Errorf("there is none of %d", len(list.Items)))
	})
}

// quiet: no component requests what is not guarded any more, also not after its
// connections ended, while it requests what it watches still, and has had to do so twice.
func quiet(t *testing.T, reason string) {
	t.Helper()
	var cuts []time.Time
	for range 3 { // after the first time, each process has heard of what the leader has done
		cut := time.Now()
		cuts = append(cuts, cut)
		the.Line.Cut()
		wait.For(t, "each component to watch again what is guarded", wait.Patience, func(context.Context) error {
			policies, _ := watchRequests(t, v1alpha1.GroupVersion.Group, cut)
			configurations, _ := watchRequests(t, site.Hooks.Group, cut)
			for _, component := range []string{"gate", "webhook"} {
				if !slices.Contains(policies, component+" kausalities") || !slices.Contains(configurations, component+" "+site.Hooks.Resource) {
					return fmt.Errorf("watched are %v and %v", policies, configurations)
				}
			}
			return nil
		})
	}
	if open, refused := watchRequests(t, shopGroup, cuts[1]); len(open) > 0 || len(refused) > 0 {
		t.Errorf("%s: watched still are %v, refused was %v", reason, open, refused)
	}
}
