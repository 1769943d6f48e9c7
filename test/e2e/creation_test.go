package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/auditlog"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/history"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// store is composed of an XDatabase, and that of a Database of the test provider and an Object of
// provider-kubernetes.
var store = story.Definition{Group: "example.org", Version: "v1alpha1", Kind: "XStore", Plural: "xstores", Spec: "{size: {type: integer}}"}

// storeComposition whose XDatabases have a Composition.
func storeComposition(name, inner string, steps ...string) []byte {
	return store.Composition(name, fmt.Sprintf(`
      - name: database
        base: {apiVersion: example.org/v1alpha1, kind: XDatabase, spec: {crossplane: {compositionRef: {name: %s}}}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.size}`, inner), append(steps, story.StepAutoReady)...)
}

// ourWrites bound what Kausality writes on an object of a resource while it is created.
var ourWrites = map[schema.GroupVersionResource]int{store.Resource(): 1, story.XDatabases: 1, story.Databases: 1, story.Settings: 1}

// TestCreationWrites: from the creation of a two-level composite until it has settled behind closed gates, Kausality writes each
// composite once and each managed resource once. Each write is an event that Crossplane's circuit breaker counts (KR-04-18).
func TestCreationWrites(t *testing.T) {
	ctx, e := story.StartTest(t, story.Options{Webhook: true, Function: true, SteadyBreaker: true, CreationGrace: true, SettleGrace: 10 * time.Second})
	y := newScenario(ctx, t, e, "creation")
	versions := map[schema.GroupVersionResource]*history.History{}
	for r := range ourWrites {
		h, err := history.Record(ctx, e.EtcdURL(), r, y.ns)
		require.NoError(t, err)
		versions[r] = h
	}
	require.NoError(t, e.Apply(ctx, store.XRD()))
	y.compose() // without the function
	for name, inner := range map[string]string{"plain": y.ns, "with-function": "xdatabases.example.org"} {
		var steps []string
		if name == "with-function" {
			steps = append(steps, story.StepKausality)
		}
		require.NoError(t, e.Apply(ctx, storeComposition(name, inner, steps...)))
	}
	for _, name := range []string{"plain", "with-function"} {
		y.createStore(name)
	}
	for _, name := range []string{"plain", "with-function"} {
		y.awaitAllSettled(store.Resource(), name)
	}
	for _, r := range []schema.GroupVersionResource{story.XDatabases, story.Databases, story.Settings} {
		for _, name := range versions[r].Names() {
			if r == story.XDatabases {
				y.awaitAllSettled(r, name)
			} else {
				y.awaitClosed(r, name)
			}
		}
	}
	late := time.NewTimer(5 * time.Second) // for writes that come late
	select {
	case <-late.C:
	case <-ctx.Done():
	}
	got := writesOfOurs(t, e, y.ns)
	for r, most := range ourWrites {
		names := versions[r].Names()
		require.Len(t, names, 2, r.Resource)
		for _, name := range names {
			writes := got[r.Resource+"/"+name]
			changes := changesOf(t, versions[r], name)
			t.Logf("%s %s: %d writes by %v\n%s", r.Resource, name, len(writes), writes, changes)
			if len(writes) > most {
				t.Errorf("%s %s: Kausality wrote it %d times, at most %d are wanted", r.Resource, name, len(writes), most)
			}
		}
	}
}

// createStore as hans, with a Composition of its name.
func (y *scenario) createStore(name string) {
	y.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1alpha1", "kind": store.Kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"size": int64(10), "crossplane": map[string]any{"compositionRef": map[string]any{"name": name}}}}}
	y.until("an "+store.Kind, func(ctx context.Context) error {
		_, err := y.hans.Resource(store.Resource()).Namespace(y.ns).Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// awaitAllSettled: a composite is Ready, and has settled at its last intent.
func (y *scenario) awaitAllSettled(r schema.GroupVersionResource, name string) {
	y.t.Helper()
	y.until(name+" to settle", func(ctx context.Context) error {
		xr, err := y.admin.Resource(r).Namespace(y.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		hops, err := story.Trace(xr)
		if err != nil {
			return err
		}
		if have := xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; have != fmt.Sprint(hops[len(hops)-1].Generation) {
			return fmt.Errorf("settled at %q: %v", have, xr.Object["status"])
		}
		return controlplane.ConditionTrue(xr, "Ready")
	})
}

// writesOfOurs that were stored, by RESOURCE/NAME in a Namespace: who wrote, in order.
func writesOfOurs(t *testing.T, e *story.Env, namespace string) map[string][]string {
	t.Helper()
	const ours = "system:serviceaccount:kausality-system:kausality-"
	out := map[string][]string{}
	require.NoError(t, auditlog.NewTail(e.AuditLog()).Read(func(line []byte) error {
		if !bytes.Contains(line, []byte(ours)) || !bytes.Contains(line, []byte(`"ResponseComplete"`)) {
			return nil
		}
		var r struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Namespace, Name, Subresource string }
			ResponseStatus struct{ Code int32 }
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		by, is := strings.CutPrefix(r.User.Username, ours)
		if is && r.ObjectRef.Namespace == namespace && slices.Contains([]string{"create", "update", "patch"}, r.Verb) && r.ResponseStatus.Code < 300 {
			key := r.ObjectRef.Resource + "/" + r.ObjectRef.Name
			out[key] = append(out[key], by)
		}
		return nil
	}))
	return out
}

// changesOf our annotations and of the mask, with the versions in which they became so.
func changesOf(t *testing.T, h *history.History, name string) string {
	t.Helper()
	all, err := h.Versions(name)
	require.NoError(t, err)
	var out strings.Builder
	var was map[string]string
	for i, v := range all {
		now := map[string]string{"spec.managementPolicies": fmt.Sprint(story.Policies(v.Object))}
		for k, value := range v.Object.GetAnnotations() {
			if strings.HasPrefix(k, v1alpha1.Group) || k == v1alpha1.AnnotationKeyReconcileRequestedAt {
				now[k] = value
			}
		}
		for _, k := range slices.Sorted(maps.Keys(now)) {
			if was[k] != now[k] {
				fmt.Fprintf(&out, "%3d %s %s: %.300s\n", i+1, v.Seen.Format("05.000"), k, now[k])
			}
		}
		was = now
	}
	fmt.Fprintf(&out, "%3d versions\n", len(all))
	return out.String()
}
