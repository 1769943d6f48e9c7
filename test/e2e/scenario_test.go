package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/auditlog"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	events     = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// scenarios of the gate with Crossplane and providers that are not ours. Each has
// a Namespace of its own.
var scenarios = map[string]func(*scenario){
	"object-changed": objectChanged, "object-drift": objectDrift, "object-gone": objectGone, "object-failing": objectFailing,
	"object-deleted": objectDeleted, "object-orphaned": objectOrphaned, "object-observed": objectObserved,
	"delete-mr": deleteManaged, "delete-xr-background": deleteBackground, "delete-xr-foreground": deleteForeground,
	"remove-database": removeDatabase, "remove-settings": removeSettings, "owner-gone": ownerGone, "namespace-deleted": namespaceDeleted,
	"false-ahead": falseAhead, "false-stale": falseStale, "false-flapping": falseFlapping,
}

// gates plays all scenarios, several at a time.
func gates(ctx context.Context, t *testing.T, e *story.Env) {
	audit := &auditLog{tail: auditlog.NewTail(e.AuditLog()), seen: map[string][]request{}}
	for name, play := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newScenario(ctx, t, e, name)
			y.audit = audit
			play(y)
		})
	}
}

// scenario of the gate, in a Namespace of its own.
type scenario struct {
	t           *testing.T
	ctx         context.Context //nolint:containedctx // Lives as long as the test it belongs to.
	e           *story.Env
	ns          string
	admin, hans dynamic.Interface
	audit       *auditLog
}

func newScenario(ctx context.Context, t *testing.T, e *story.Env, name string) *scenario {
	t.Helper()
	y := &scenario{t: t, ctx: ctx, e: e, ns: name}
	for user, into := range map[string]*dynamic.Interface{"": &y.admin, story.Hans: &y.hans} {
		config := e.Config()
		if user != "" {
			config = e.ConfigAs(user)
		}
		config.QPS = -1
		var err error
		if *into, err = dynamic.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
	}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := y.admin.Resource(namespaces).Create(ctx, ns, metav1.CreateOptions{})
	require.NoError(y.t, err)
	return y
}

// patience with what many scenarios at a time on two cores may take.
const patience = 2 * time.Minute

func (y *scenario) until(what string, f func(context.Context) error) {
	y.t.Helper()
	require.NoError(y.t, controlplane.Eventually(y.ctx, y.ns+": "+what, patience, f))
}

func (y *scenario) get(r schema.GroupVersionResource, name string) *unstructured.Unstructured {
	y.t.Helper()
	o, err := y.admin.Resource(r).Namespace(y.ns).Get(y.ctx, name, metav1.GetOptions{})
	require.NoError(y.t, err)
	return o
}

func (y *scenario) merge(c dynamic.Interface, r schema.GroupVersionResource, name string, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.Resource(r).Namespace(y.ns).Patch(y.ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}

// annotate as hans; nil removes. Conflicts are tried again.
func (y *scenario) annotate(r schema.GroupVersionResource, name, key string, value any) {
	y.t.Helper()
	y.until("annotation "+key+" to be taken", func(context.Context) error {
		return y.merge(y.hans, r, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	})
}

func gateOf(o *unstructured.Unstructured) v1alpha1.Gate { return mask.ParseGate(o.GetAnnotations()) }

func (y *scenario) awaitClosed(r schema.GroupVersionResource, name string) {
	y.t.Helper()
	y.until("the gate of "+name+" to be closed", func(ctx context.Context) error {
		o, err := y.admin.Resource(r).Namespace(y.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p := story.Policies(o); gateOf(o).State != v1alpha1.GateClosed || !slices.Equal(p, []string{"Observe"}) {
			return fmt.Errorf("gate %+v, policies %v, status %v", gateOf(o), p, o.Object["status"])
		}
		return nil
	})
}

// awaitGone waits until an object does not exist.
func (y *scenario) awaitGone(r schema.GroupVersionResource, namespace, name string) {
	y.t.Helper()
	y.until(name+" to be gone", func(ctx context.Context) error {
		o, err := y.admin.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if isNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it exists: %v, %v", o.GetAnnotations(), o.Object["status"])
		}
		return err
	})
}

// awaitDrift about an object, for which f holds.
func (y *scenario) awaitDrift(child string, f func(*unstructured.Unstructured) error) (d *unstructured.Unstructured) {
	y.t.Helper()
	y.until("a drift of "+child, func(ctx context.Context) error {
		list, err := y.admin.Resource(story.Drifts).Namespace(y.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		last := fmt.Errorf("there are %d drifts", len(list.Items))
		for i := range list.Items {
			d = &list.Items[i]
			if at(d, "spec", "child", "name") != child || at(d, "spec", "relation") != "External" || at(d, "status", "phase") != "Detected" {
				continue
			}
			if last = f(d); last == nil {
				return nil
			}
		}
		return last
	})
	return d
}

func at(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

var command = regexp.MustCompile(`kubectl annotate -n (\S+) (\S+) (\S+) (kausality\.io/[^=\s]+)=(\S+)`)

// follow the first command of a text as hans, verbatim.
func (y *scenario) follow(text string) {
	y.t.Helper()
	m := command.FindStringSubmatch(text)
	if m == nil || m[1] != y.ns {
		y.t.Fatalf("no command for Namespace %s in: %s", y.ns, text)
	}
	for _, r := range []schema.GroupVersionResource{story.XDatabases, story.Databases, story.Settings} {
		// kubectl takes the plural and the singular.
		if name := r.Resource + "." + r.Group; m[2] == name || m[2] == strings.TrimSuffix(r.Resource, "s")+"."+r.Group {
			y.annotate(r, m[3], m[4], strings.TrimSuffix(m[5], "."))
			return
		}
	}
	y.t.Fatalf("the command names resource %q", m[2])
}

// refused deletion by hans, as a text.
func (y *scenario) refused(err error) string {
	y.t.Helper()
	if err == nil || !strings.Contains(err.Error(), "ExternalDeletionNotAllowed") {
		y.t.Fatalf("want the deletion to be refused, got: %v", err)
	}
	return err.Error()
}

func (y *scenario) remove(r schema.GroupVersionResource, name string, how metav1.DeletionPropagation) error {
	return y.hans.Resource(r).Namespace(y.ns).Delete(y.ctx, name, metav1.DeleteOptions{PropagationPolicy: &how})
}

// passes once the request is repeated.
func (y *scenario) passes(r schema.GroupVersionResource, name string, how metav1.DeletionPropagation) {
	y.t.Helper()
	y.until("the deletion of "+name+" to be let through", func(context.Context) error {
		if err := y.remove(r, name, how); !isNotFound(err) {
			return err
		}
		return nil
	})
}
