package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	databases  = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1alpha1", Resource: "databases"}
	xstores    = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "xstores"}
	drifts     = v1alpha1.GroupVersion.WithResource("drifts")
	revisions  = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositionrevisions"}
)

// fixture is a Namespace with the clients of a user and of Crossplane.
type fixture struct {
	t         *testing.T
	ns        string
	hans, own dynamic.Interface
}

// newFixture of a test that runs with others; the test is skipped where the machine has no Chromium.
func newFixture(t *testing.T, ns string) *fixture {
	t.Helper()
	if the.browser == nil {
		t.Skip("SKIPPED: there is no Chromium on this machine: install the package chromium (apt-get install chromium)")
	}
	return newTerminalFixture(t, ns)
}

// begun are the namespaces of the tests that have begun.
var begun []string

// newTerminalFixture of a test that runs with others, and needs no browser. The name of its namespace is part of that of no other: tests click the
// first link with a text.
func newTerminalFixture(t *testing.T, ns string) *fixture {
	t.Helper()
	for _, other := range begun { // one test begins after another
		require.False(t, strings.Contains(other, ns) || strings.Contains(ns, other), "%s and %s are one for a test that clicks either", ns, other)
	}
	begun = append(begun, ns)
	t.Parallel()
	s := &fixture{t: t, ns: ns}
	var err error
	s.hans, err = the.as(hans)
	require.NoError(t, err)
	s.own, err = the.as(crossplane)
	require.NoError(t, err)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}}
	_, err = s.hans.Resource(namespaces).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	return s
}

func (s *fixture) of(c dynamic.Interface, r schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.Resource(r).Namespace(s.ns)
}

// mrName is the name of the Database of an XR.
func (s *fixture) mrName(xr string) string { return s.ns + "-" + xr }

// settled XRs of hans's, whose Databases are in the cloud behind closed gates.
func (s *fixture) settled(names ...string) {
	s.t.Helper()
	for _, name := range names {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "XStore",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": int64(20)}}}
		_, err := s.of(s.hans, xstores).Create(s.t.Context(), o, metav1.CreateOptions{})
		require.NoError(s.t, err)
	}
	for _, name := range names {
		wait.For(s.t, "XR "+name+" to settle with a closed gate", 2*wait.Patience, func(ctx context.Context) error {
			if err := s.compose(ctx, name, "xstores-1a2", "bronze"); err != nil {
				return err
			}
			xr, err := s.of(s.hans, xstores).Get(ctx, name, metav1.GetOptions{})
			if err == nil && xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] == "" {
				err = fmt.Errorf("it has not settled: %v", xr.Object["status"])
			}
			return errors.Join(err, s.closed(ctx, name))
		})
	}
}

// closed reports whether the gate of an XR's Database is closed, and its provider knows.
func (s *fixture) closed(ctx context.Context, xr string) error {
	mr, err := s.of(s.hans, databases).Get(ctx, s.mrName(xr), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if g := mask.ParseGate(mr.GetAnnotations()); g.State != v1alpha1.GateClosed {
		return fmt.Errorf("the gate is %+v", g)
	}
	if synced := condition(mr, "Synced"); synced == nil || synced["observedGeneration"] != mr.GetGeneration() {
		return fmt.Errorf("the provider has reported %v of generation %d", synced, mr.GetGeneration())
	}
	return nil
}

// condition of an object; nil for none.
func condition(o *unstructured.Unstructured, kind string) map[string]any {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// compose an XR as Crossplane does: reference and revision first, the Database, then the status. The error is that of the Database, if it was
// refused.
func (s *fixture) compose(ctx context.Context, name, revision, tier string) error {
	machinery := map[string]any{"resourceRefs": []any{map[string]any{"apiVersion": "cloud.example.org/v1alpha1", "kind": "Database", "name": s.mrName(name)}},
		"compositionRevisionRef": map[string]any{"name": revision}}
	xr, err := s.apply(ctx, xstores, name, "apiextensions.crossplane.io/composite", map[string]any{"apiVersion": "example.org/v1", "kind": "XStore",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"crossplane": machinery}})
	if err != nil {
		return err
	}
	size, _, _ := unstructured.NestedInt64(xr.Object, "spec", "size")
	owner := map[string]any{"apiVersion": "example.org/v1", "kind": "XStore", "name": name, "uid": string(xr.GetUID()), "controller": true,
		"blockOwnerDeletion": true}
	manager := subject.ComposedManager(name, schema.GroupKind{Group: "example.org", Kind: "XStore"})
	mr, refused := s.apply(ctx, databases, s.mrName(name), manager, map[string]any{"apiVersion": "cloud.example.org/v1alpha1", "kind": "Database",
		"metadata": map[string]any{"name": s.mrName(name), "annotations": map[string]any{"crossplane.io/composition-resource-name": "database"},
			"ownerReferences": []any{owner}},
		"spec": map[string]any{"forProvider": map[string]any{"size": size, "tags": map[string]any{"tier": tier}}}})
	if refused != nil && !kerrors.IsInvalid(refused) && !kerrors.IsForbidden(refused) {
		return refused
	}
	return errors.Join(refused, s.report(ctx, xr, mr, refused))
}

func (s *fixture) apply(ctx context.Context, r schema.GroupVersionResource, name, manager string, o map[string]any) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return s.of(s.own, r).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: manager, Force: new(true)})
}

// report writes the status that Crossplane writes, unless it is that already.
func (s *fixture) report(ctx context.Context, xr, mr *unstructured.Unstructured, refused error) error {
	synced, ready := "True", "False"
	if refused != nil {
		synced = "False"
	}
	if mr != nil {
		if c := condition(mr, "Ready"); c != nil && c["status"] == "True" {
			ready = "True"
		}
	}
	var next []any
	changed := false
	for _, c := range [][2]string{{"Synced", synced}, {"Ready", ready}} {
		old := condition(xr, c[0])
		if old != nil && old["status"] == c[1] && old["observedGeneration"] == xr.GetGeneration() {
			next = append(next, old)
			continue
		}
		changed = true
		next = append(next, map[string]any{"type": c[0], "status": c[1], "reason": "R", "observedGeneration": xr.GetGeneration(),
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)})
	}
	if !changed {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": next}})
	if err != nil {
		return err
	}
	_, err = s.of(s.own, xstores).Patch(ctx, xr.GetName(), types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "crossplane"}, "status")
	return err
}

// revision of alice's Composition, as Crossplane makes it.
func (s *fixture) revision(name string) {
	s.t.Helper()
	hop := `[{"apiVersion":"apiextensions.crossplane.io/v1","kind":"Composition","name":"xstores","generation":2,"user":"` + alice + `","timestamp":"` +
		time.Now().UTC().Format(time.RFC3339) + `"}]`
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositionRevision",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{v1alpha1.AnnotationKeyTrace: hop}},
		"spec": map[string]any{"revision": int64(2), "mode": "Pipeline", "compositeTypeRef": map[string]any{"apiVersion": "example.org/v1", "kind": "XStore"},
			"pipeline": []any{map[string]any{"step": "compose", "functionRef": map[string]any{"name": "function-compose"}}}}}}
	_, err := s.own.Resource(revisions).Create(s.t.Context(), o, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// refused: a revision of the Composition sets a tier, which no user requested. It returns the message of the last.
func (s *fixture) refused(revision, tier string, names ...string) (message string) {
	s.t.Helper()
	for _, name := range names {
		err := s.compose(s.t.Context(), name, revision, tier)
		require.Error(s.t, err)
		message = err.Error()
		require.Contains(s.t, message, v1alpha1.AnnotationKeyApprovePrefix)
	}
	return message
}

// passes: Crossplane, which tries repeatedly, composes an XR, and the cloud has the tier.
func (s *fixture) passes(revision, tier, name string) {
	s.t.Helper()
	wait.For(s.t, "the approved change to pass", wait.Patience, func(ctx context.Context) error { return s.compose(ctx, name, revision, tier) })
	wait.For(s.t, "the cloud to have tier "+tier, 2*wait.Patience, func(context.Context) error {
		if got := s.tier(name); got != tier {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// tier of an XR's database in the cloud.
func (s *fixture) tier(xr string) string {
	s.t.Helper()
	is, err := the.cloud.Get(s.t.Context(), s.mrName(xr))
	require.NoError(s.t, err)
	return is.Tags["tier"]
}

// changeOutside sets the size of an XR's database in the cloud.
func (s *fixture) changeOutside(xr string, size int) {
	s.t.Helper()
	wait.For(s.t, "the gate to be closed", wait.Patience, func(ctx context.Context) error { return s.closed(ctx, xr) })
	require.NoError(s.t, the.cloud.Change(s.t.Context(), s.mrName(xr), client.Fields{"size": size}))
}

// drift that is open about an XR's Database.
func (s *fixture) drift(xr string) (found *unstructured.Unstructured) {
	s.t.Helper()
	wait.For(s.t, "the Drift of "+xr, wait.Patience, func(ctx context.Context) error {
		list, err := s.of(s.hans, drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for n := range list.Items {
			found = &list.Items[n]
			child, _, _ := unstructured.NestedString(found.Object, "spec", "child", "name")
			phase, _, _ := unstructured.NestedString(found.Object, "status", "phase")
			if child == s.mrName(xr) && phase != string(v1alpha1.DriftResolved) {
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(list.Items))
	})
	return found
}

// annotations of an XR.
func (s *fixture) annotations(xr string) string {
	s.t.Helper()
	o, err := s.of(s.hans, xstores).Get(s.t.Context(), xr, metav1.GetOptions{})
	require.NoError(s.t, err)
	var out []string
	for k, v := range o.GetAnnotations() {
		out = append(out, k+"="+v)
	}
	return strings.Join(out, "\n")
}
