package composed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
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
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// Users: anna writes graphs and compositions, hans composites and instances, and kro and Crossplane what follows.
const (
	anna       = "anna@example.com"
	hans       = "hans@example.com"
	kro        = controlplane.KroUser
	crossplane = "system:serviceaccount:crossplane-system:crossplane"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	graphs     = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "resourcegraphdefinitions"}
	shops      = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "shops"}
	stores     = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "stores"}
)

// ns is the Namespace of all objects, in which applies create them.
const ns = "default"

// patience with a step of several controllers.
const patience = time.Minute

var the *story.Env

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, func(ctx context.Context) (stop func(), err error) {
		the, err = story.Start(ctx, story.Options{Dir: os.Getenv("KAUSALITY_INTEGRATION_DIR"), Out: os.Stderr, Webhook: true, WithoutObjects: true, Kro: true,
			Resources: []string{"shops.kro.run", "stores.kro.run", "resourcegraphdefinitions.kro.run", "configmaps"}})
		return the.Stop, err
	}))
}

// as is a client of a user.
func as(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(the.ConfigAsMaster(user))
	require.NoError(t, err)
	return c
}

// of is a client of a user for a resource in the Namespace.
func of(t *testing.T, user string, r schema.GroupVersionResource) dynamic.ResourceInterface {
	t.Helper()
	return as(t, user).Resource(r).Namespace(ns)
}

// apply a manifest as a user.
func apply(t *testing.T, user, manifest string) {
	t.Helper()
	a, err := controlplane.NewApplier(the.ConfigAsMaster(user), "kubectl")
	require.NoError(t, err)
	require.NoError(t, a.Apply(t.Context(), []byte(manifest)))
}

// define a graph as anna, and wait until kro carries it out. It returns the latest revision.
func define(t *testing.T, name, manifest string) (revision int64) {
	t.Helper()
	apply(t, anna, manifest)
	wait.For(t, "kro to carry graph "+name+" out", patience, func(ctx context.Context) error {
		o, err := as(t, anna).Resource(graphs).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if revision, _, _ = unstructured.NestedInt64(o.Object, "status", "lastIssuedRevision"); revision == 0 {
			return errors.New("it has no revision")
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, e := range conditions {
			if c, _ := e.(map[string]any); c["status"] != "True" || c["observedGeneration"] != o.GetGeneration() {
				return fmt.Errorf("%v", c)
			}
		}
		return nil
	})
	return revision
}

// until an object exists for which f returns nil; it returns the object.
func until(t *testing.T, r schema.GroupVersionResource, name, what string, f func(*unstructured.Unstructured) error) (o *unstructured.Unstructured) {
	t.Helper()
	wait.For(t, r.Resource+" "+name+" "+what, patience, func(ctx context.Context) (err error) {
		if o, err = of(t, hans, r).Get(ctx, name, metav1.GetOptions{}); err == nil {
			err = f(o)
		}
		return err
	})
	return o
}

// has waits until a field of an object has a value.
func has(t *testing.T, r schema.GroupVersionResource, name string, want any, path ...string) *unstructured.Unstructured {
	t.Helper()
	return until(t, r, name, "to be written", func(o *unstructured.Unstructured) error {
		if is, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...); is != want {
			return fmt.Errorf("%v is %v, want %v", path, is, want)
		}
		return nil
	})
}

// settled waits until an object settled with its last intent.
func settled(t *testing.T, r schema.GroupVersionResource, name string) {
	t.Helper()
	until(t, r, name, "to settle", func(o *unstructured.Unstructured) error {
		hops, err := story.Trace(o)
		if err != nil {
			return err
		}
		if at, own := o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration], hops[len(hops)-1].Generation; at != fmt.Sprint(own) {
			return fmt.Errorf("it settled at %q, its intent is %d: %v", at, own, o.Object["status"])
		}
		return nil
	})
}

// only returns the one object of a resource, once it exists.
func only(t *testing.T, r schema.GroupVersionResource) (o *unstructured.Unstructured) {
	t.Helper()
	wait.For(t, "one of "+r.Resource, patience, func(ctx context.Context) error {
		list, err := of(t, hans, r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		o = &list.Items[0]
		return nil
	})
	return o
}

// edited is the cause of what an edit of a graph by anna changes, by the revision that it made.
func edited(graph string, revision int64) string {
	return fmt.Sprintf("ResourceGraphDefinition %s revision %d, changed by %s", graph, revision, anna)
}

// drift returns the open Drift of an operation on an object, whose cause begins as given.
func drift(t *testing.T, kind, name, operation, cause string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	wait.For(t, "a Drift of "+operation+" of "+kind+" "+name+": "+cause, patience, func(ctx context.Context) error {
		list, err := of(t, hans, story.Drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			found = &list.Items[i]
			if at(found, "spec", "child", "kind") == kind && at(found, "spec", "child", "name") == name &&
				at(found, "status", "phase") == "Detected" && at(found, "spec", "operation") == operation && strings.HasPrefix(at(found, "spec", "cause"), cause) {
				return nil
			}
		}
		return fmt.Errorf("none of %v", list.Items)
	})
	return found
}

func at(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// approve as hans what a Drift is about, on the object that holds its approvals.
func approve(t *testing.T, d *unstructured.Unstructured, r schema.GroupVersionResource, name string) {
	t.Helper()
	require.Contains(t, at(d, "spec", "suggestedApproval"), r.Resource, "the approval is suggested on another object")
	annotate(t, r, name, v1alpha1.AnnotationKeyApprovePrefix+at(d, "spec", "id"), "once")
}

func annotate(t *testing.T, r schema.GroupVersionResource, name, key, value string) {
	t.Helper()
	_, err := of(t, hans, r).Patch(t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value), metav1.PatchOptions{})
	require.NoError(t, err)
}

// hops are the kinds and users of an object's trace.
func hops(t *testing.T, o *unstructured.Unstructured) (out []string) {
	t.Helper()
	trace, err := story.Trace(o)
	require.NoError(t, err)
	for _, h := range trace {
		out = append(out, h.Kind+" "+h.User)
	}
	return out
}

// closed waits until the gate of the Database is closed, and its external resource has a size.
func closed(t *testing.T, name string, size int64) *unstructured.Unstructured {
	t.Helper()
	return until(t, story.Databases, name, "to be closed", func(o *unstructured.Unstructured) error {
		if g := mask.ParseGate(o.GetAnnotations()); g.State != v1alpha1.GateClosed || fmt.Sprint(story.Policies(o)) != "[Observe]" {
			return fmt.Errorf("the gate is %v", g)
		}
		db, err := the.Cloud.Get(t.Context(), name)
		if err == nil && db.Size != size {
			err = fmt.Errorf("its size is %d", db.Size)
		}
		return err
	})
}

// gone waits until an object does not exist.
func gone(t *testing.T, c dynamic.ResourceInterface, name string) {
	t.Helper()
	wait.For(t, name+" to be gone", patience, func(ctx context.Context) error {
		o, err := c.Get(ctx, name, metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it is %v", o))
	})
}

// outside waits until the external resource of a Database exists, or does not.
func outside(t *testing.T, name string, exists bool) {
	t.Helper()
	wait.For(t, "the external resource "+name, patience, func(ctx context.Context) error {
		if _, err := the.Cloud.Get(ctx, name); exists && err != nil || !exists && !client.IsNotFound(err) {
			return fmt.Errorf("it exists: %t, %w", !exists, err)
		}
		return nil
	})
}
