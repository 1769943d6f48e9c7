package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// Deletions in every order, of an XR that real Crossplane composed of a Database,
// by the test provider, and an Object, by provider-kubernetes: with the deletion
// not allowed both stay, with it allowed both external resources are deleted.

// whole is such an XR, once it settled behind closed gates. XR, Composition and
// ConfigMap have the Namespace's name.
type whole struct {
	*scenario
	database, settings string
}

// compose with a Composition that leaves some of its resources out.
func (y *scenario) compose(without ...string) {
	y.t.Helper()
	raw, err := story.Example("composition.yaml")
	require.NoError(y.t, err)
	o := &unstructured.Unstructured{}
	require.NoError(y.t, yaml.Unmarshal(raw, &o.Object))
	steps, _, _ := unstructured.NestedSlice(o.Object, "spec", "pipeline")
	list, _, _ := unstructured.NestedSlice(steps[0].(map[string]any), "input", "resources")
	list = slices.DeleteFunc(list, func(r any) bool { return slices.Contains(without, r.(map[string]any)["name"].(string)) })
	require.NoError(y.t, unstructured.SetNestedSlice(steps[0].(map[string]any), list, "input", "resources"))
	require.NoError(y.t, unstructured.SetNestedSlice(o.Object, steps[:1], "spec", "pipeline")) // webhook and gate alone
	o.SetName(y.ns)
	apply(y.ctx, y.t, y.e, o)
}

func (y *scenario) whole(without ...string) *whole {
	y.t.Helper()
	y.compose(without...)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1alpha1", "kind": "XDatabase", "metadata": map[string]any{"name": y.ns},
		"spec": map[string]any{"size": int64(10), "crossplane": map[string]any{"compositionRef": map[string]any{"name": y.ns}}}}}
	_, err := y.hans.Resource(story.XDatabases).Namespace(y.ns).Create(y.ctx, o, metav1.CreateOptions{})
	require.NoError(y.t, err)
	w := &whole{scenario: y}
	for name, into := range map[string]*string{"database": &w.database, "settings": &w.settings} {
		if !slices.Contains(without, name) {
			r := map[string]schema.GroupVersionResource{"database": story.Databases, "settings": story.Settings}[name]
			*into = y.only(r)
			y.awaitClosed(r, *into)
		}
	}
	y.until("the XR to settle", func(ctx context.Context) error {
		xr, err := y.admin.Resource(story.XDatabases).Namespace(y.ns).Get(ctx, y.ns, metav1.GetOptions{})
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
		return nil
	})
	return w
}

// only name of an object of a resource.
func (y *scenario) only(r schema.GroupVersionResource) (name string) {
	y.t.Helper()
	y.until("one of "+r.Resource, func(ctx context.Context) error {
		list, err := y.admin.Resource(r).Namespace(y.ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		if err == nil {
			name = list.Items[0].GetName()
		}
		return err
	})
	return name
}

// external resources that there are: "database", "settings" or both.
func (w *whole) external(ctx context.Context) (there []string, err error) {
	if w.database != "" {
		_, err := w.e.Cloud.Get(ctx, w.database)
		if err != nil && !client.IsNotFound(err) {
			return nil, err
		}
		if err == nil {
			there = append(there, "database")
		}
	}
	if w.settings != "" {
		_, err := w.admin.Resource(configMaps).Namespace("default").Get(ctx, w.ns, metav1.GetOptions{})
		if err != nil && !isNotFound(err) {
			return nil, err
		}
		if err == nil {
			there = append(there, "settings")
		}
	}
	return there, nil
}

// kept: nothing of some is gone or being deleted, in the cluster or outside.
func (w *whole) kept(names ...string) {
	w.t.Helper()
	there, err := w.external(w.ctx)
	require.NoError(w.t, err)
	if !slices.Equal(there, names) {
		w.t.Fatalf("%s: of the external resources there are %v, want %v", w.ns, there, names)
	}
	for _, name := range names {
		resource := map[string]schema.GroupVersionResource{"database": story.Databases, "settings": story.Settings}[name]
		o := w.get(resource, map[string]string{"database": w.database, "settings": w.settings}[name])
		if o.GetDeletionTimestamp() != nil {
			w.t.Fatalf("%s: %s %s is being deleted", w.ns, o.GetKind(), o.GetName())
		}
	}
}

// left waits until of the external resources there are those.
func (w *whole) left(names ...string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%v to be left outside", names), func(ctx context.Context) error {
		there, err := w.external(ctx)
		if err == nil && !slices.Equal(there, names) {
			err = fmt.Errorf("there are %v", there)
		}
		return err
	})
}

func (w *whole) gone() {
	w.t.Helper()
	if w.database != "" {
		w.awaitGone(story.Databases, w.ns, w.database)
	}
	if w.settings != "" {
		w.awaitGone(story.Settings, w.ns, w.settings)
	}
	w.awaitGone(story.XDatabases, w.ns, w.ns)
	w.left()
}

// deleteManaged: kubectl delete of each managed resource.
func deleteManaged(y *scenario) {
	w, how := y.whole(), metav1.DeletePropagationBackground
	refusals := map[string]string{
		"database": w.refused(w.remove(story.Databases, w.database, how)), "settings": w.refused(w.remove(story.Settings, w.settings, how)),
	}
	w.kept("database", "settings")
	w.follow(refusals["database"])
	w.passes(story.Databases, w.database, how)
	w.left("settings")
	w.follow(refusals["settings"])
	w.passes(story.Settings, w.settings, how)
	w.left()
}

func deleteBackground(y *scenario) { y.deleteXR(metav1.DeletePropagationBackground) }

func deleteForeground(y *scenario) { y.deleteXR(metav1.DeletePropagationForeground) }

// deleteXR: one approval is for everything below it.
func (y *scenario) deleteXR(how metav1.DeletionPropagation) {
	w := y.whole()
	why := w.refused(w.remove(story.XDatabases, w.ns, how))
	w.kept("database", "settings")
	w.follow(why)
	w.passes(story.XDatabases, w.ns, how)
	w.gone()
}

func removeDatabase(y *scenario) {
	w := y.whole()
	w.removed("database", w.database, "settings")
}

func removeSettings(y *scenario) {
	w := y.whole()
	w.removed("settings", w.settings, "database")
}

// removed from the Composition: Crossplane is refused, and reports it; what it was
// refused is repeated once it is approved.
func (w *whole) removed(resource, name, other string) {
	w.compose(resource)
	d := w.awaitDrift(name, repeatedFor("system:serviceaccount:crossplane-system:crossplane"))
	w.until("the XR to report why it stalls", func(ctx context.Context) error {
		xr, err := w.admin.Resource(story.XDatabases).Namespace(w.ns).Get(ctx, w.ns, metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(xr.Object["status"]), "ExternalDeletionNotAllowed") {
			err = fmt.Errorf("its status is %v", xr.Object["status"])
		}
		return err
	})
	w.kept("database", "settings")
	w.follow(at(d, "spec", "suggestedApproval"))
	w.left(other)
	w.until("the XR to be synced again", func(ctx context.Context) error {
		xr, err := w.admin.Resource(story.XDatabases).Namespace(w.ns).Get(ctx, w.ns, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return synced(xr)
	})
	w.kept(other)
}

func synced(o *unstructured.Unstructured) error {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		if c, _ := e.(map[string]any); c["type"] == "Synced" && c["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %v", list)
}

// repeatedFor: the Drift of a deletion that was refused to a controller.
func repeatedFor(who string) func(*unstructured.Unstructured) error {
	return func(d *unstructured.Unstructured) error {
		if got := at(d, "status", "repeatFor"); got != who {
			return fmt.Errorf("the deletion is repeated for %q", got)
		}
		return nil
	}
}

// ownerGone: the XR was deleted without a review, and the garbage collector is
// refused the rest; that is approved on the managed resources themselves.
func ownerGone(y *scenario) {
	w := y.whole()
	xr := w.get(story.XDatabases, w.ns)
	below := map[string]schema.GroupVersionResource{w.database: story.Databases, w.settings: story.Settings}
	for name, r := range below {
		w.annotate(r, name, v1alpha1.AnnotationKeyMode, "log")
		w.until("the mask of "+name+" to be lifted", func(ctx context.Context) error {
			o, err := w.admin.Resource(r).Namespace(w.ns).Get(ctx, name, metav1.GetOptions{})
			if err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies] != "" {
				err = errors.New("it is masked")
			}
			return err
		})
	}
	w.orphan(below)
	for name, r := range below { // as it was before the owner went, with the gates in force
		require.NoError(w.t, w.merge(w.hans, r, name, map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{v1alpha1.AnnotationKeyMode: nil},
			"ownerReferences": []any{map[string]any{"apiVersion": xr.GetAPIVersion(), "kind": xr.GetKind(), "name": xr.GetName(),
				"uid": string(xr.GetUID()), "controller": true, "blockOwnerDeletion": true}},
		}}))
	}
	const collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	for name := range below {
		w.awaitDrift(name, repeatedFor(collector))
	}
	w.kept("database", "settings")
	for name, r := range below {
		w.annotate(r, name, v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","verbs":["Delete"]}]`)
	}
	w.gone()
}

// orphan deletes the XR alone. It is paused meanwhile: an apply that is on its way
// would restore the owner references that were just removed. They are removed here
// and not by the garbage collector, which may not know kinds as new as these yet.
func (w *whole) orphan(below map[string]schema.GroupVersionResource) {
	w.t.Helper()
	w.annotate(story.XDatabases, w.ns, "crossplane.io/paused", "true")
	w.until("Crossplane to pause", func(ctx context.Context) error {
		xr, err := w.admin.Resource(story.XDatabases).Namespace(w.ns).Get(ctx, w.ns, metav1.GetOptions{})
		if err == nil && controlplane.ConditionTrue(xr, "Synced") == nil {
			err = errors.New("Synced is True")
		}
		return err
	})
	for name, r := range below {
		require.NoError(w.t, w.merge(w.admin, r, name, map[string]any{"metadata": map[string]any{"ownerReferences": nil}}))
	}
	w.passes(story.XDatabases, w.ns, metav1.DeletePropagationOrphan)
	w.annotate(story.XDatabases, w.ns, "crossplane.io/paused", nil)
	w.awaitGone(story.XDatabases, w.ns, w.ns)
}

// namespaceDeleted: it stays while something would be left behind, and reports it.
// provider-kubernetes cannot delete anything in a Namespace that is being deleted:
// it must create a ProviderConfigUsage there first.
func namespaceDeleted(y *scenario) {
	w := y.whole("settings")
	y.object("alone")
	y.awaitClosed(story.Settings, "alone")
	why := w.refused(w.remove(story.XDatabases, w.ns, metav1.DeletePropagationBackground))
	w.refused(w.remove(story.Settings, "alone", metav1.DeletePropagationBackground))
	require.NoError(w.t, w.admin.Resource(namespaces).Delete(w.ctx, w.ns, metav1.DeleteOptions{}))
	w.until("the Namespace to report why it stays", func(ctx context.Context) error {
		ns, err := w.admin.Resource(namespaces).Get(ctx, w.ns, metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(ns.Object["status"]), "ExternalDeletionNotAllowed") {
			err = fmt.Errorf("its status is %v", ns.Object["status"])
		}
		return err
	})
	w.kept("database")
	if o := w.get(story.Settings, "alone"); o.GetDeletionTimestamp() != nil {
		w.t.Fatal("the Object is being deleted")
	}
	w.follow(why)
	w.gone()
	w.annotate(story.Settings, "alone", v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)
	w.until("the Namespace to be gone", func(ctx context.Context) error {
		ns, err := w.admin.Resource(namespaces).Get(ctx, w.ns, metav1.GetOptions{})
		if isNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("its status is %v", ns.Object["status"])
		}
		return err
	})
}
