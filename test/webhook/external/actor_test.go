package external

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// claimsKey is the Secret with the key that seals claims, and readsKey the access to it, which the chart grants elsewhere.
const claimsKey = "kausality-claims-key"

var readsKey = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{claimsKey},
	Verbs: []string{"get", "list", "watch"}}

func object(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// step of a controller with an object: a merge patch, the subresource it goes to
// and what is true once it is written; nil for nothing to do.
type step struct {
	patch       map[string]any
	subresource string
	done        func()
}

// actor plays the controller of one object: it reconciles it whenever it, or its
// environment, changes.
type actor struct {
	t               *testing.T
	gvr             schema.GroupVersionResource
	namespace, name string
	// api is the client of the controller, user that of a user.
	api, user dynamic.ResourceInterface
	next      func(*unstructured.Unstructured) *step
	changed   chan struct{}

	mu sync.Mutex
	// done outside, in order: plans applied, revisions synced.
	done []string
}

func newActor(t *testing.T, gvr schema.GroupVersionResource, ns, name, user string) *actor {
	return &actor{t: t, gvr: gvr, namespace: ns, name: name, changed: make(chan struct{}, 1),
		api: as(t, user).Resource(gvr).Namespace(ns), user: as(t, hans).Resource(gvr).Namespace(ns)}
}

// start to act. It ends with the test.
func (a *actor) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w, err := a.api.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + a.name})
	if err != nil {
		cancel()
		a.t.Fatal(err)
	}
	ended := make(chan struct{})
	a.t.Cleanup(func() { cancel(); w.Stop(); <-ended })
	go func() {
		defer close(ended)
		a.act(ctx, w)
	}()
}

func (a *actor) act(ctx context.Context, w watch.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
		case <-a.changed:
		}
		if err := a.reconcile(ctx); err != nil && ctx.Err() == nil {
			if !kerrors.IsConflict(err) {
				a.t.Logf("controller of %s: %v", a.name, err)
			}
			a.poke()
		}
	}
}

// poke: the environment of the object changed.
func (a *actor) poke() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *actor) reconcile(ctx context.Context) error {
	o, err := a.api.Get(ctx, a.name, metav1.GetOptions{})
	if err != nil {
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	s := a.next(o)
	if s == nil {
		return nil
	}
	s.patch["metadata"] = map[string]any{"resourceVersion": o.GetResourceVersion()}
	raw, err := json.Marshal(s.patch)
	if err != nil {
		return err
	}
	var sub []string
	if s.subresource != "" {
		sub = append(sub, s.subresource)
	}
	if _, err := a.api.Patch(ctx, a.name, types.MergePatchType, raw, metav1.PatchOptions{}, sub...); err != nil {
		return err
	}
	if s.done != nil {
		s.done()
	}
	return nil
}

func (a *actor) did(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = append(a.done, what)
}

func (a *actor) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.done...)
}

// await a state of the object.
func (a *actor) await(what string, is func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	a.t.Helper()
	var last *unstructured.Unstructured
	err := controlplane.Eventually(a.t.Context(), what, 60*time.Second, func(ctx context.Context) error {
		o, err := a.user.Get(ctx, a.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		last = o
		return is(o)
	})
	if err != nil {
		raw, _ := json.Marshal(last)
		a.t.Fatalf("%v\ndone: %v\n%s", err, a.all(), raw)
	}
	return last
}

// patch the object as hans.
func (a *actor) patch(body string) {
	a.t.Helper()
	wait.For(a.t, "the patch "+body, 20*time.Second, func(ctx context.Context) error {
		_, err := a.user.Patch(ctx, a.name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "hans"})
		return err
	})
}

func gateOf(o *unstructured.Unstructured) v1alpha1.Gate {
	g := v1alpha1.Gate{}
	_ = json.Unmarshal([]byte(o.GetAnnotations()[v1alpha1.AnnotationKeyGate]), &g) // none is the zero Gate
	return g
}

// gate is in a state for a reason.
func gate(state v1alpha1.GateState, reason string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if g := gateOf(o); g.State != state || g.Reason != reason {
			return fmt.Errorf("the gate is %s (%s)", g.State, g.Reason)
		}
		return nil
	}
}

// drift of the object that is Detected, and is not one of those known.
func (a *actor) drift(known ...string) (id string) {
	a.t.Helper()
	client := as(a.t, hans)
	wait.For(a.t, "a Drift about "+a.name, 60*time.Second, func(ctx context.Context) error {
		list, err := client.Resource(drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			child, _, _ := unstructured.NestedString(d.Object, "spec", "child", "name")
			phase, _, _ := unstructured.NestedString(d.Object, "status", "phase")
			relation, _, _ := unstructured.NestedString(d.Object, "spec", "relation")
			id, _, _ = unstructured.NestedString(d.Object, "spec", "id")
			if child == a.name && phase == "Detected" && relation == "External" && !contains(known, id) {
				return nil
			}
		}
		return fmt.Errorf("there is none of %d", len(list.Items))
	})
	return id
}

func (a *actor) awaitResolved(id string) {
	a.t.Helper()
	client := as(a.t, hans)
	wait.For(a.t, "the Drift "+id+" to be resolved", 60*time.Second, func(ctx context.Context) error {
		list, err := client.Resource(drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			have, _, _ := unstructured.NestedString(d.Object, "spec", "id")
			if phase, _, _ := unstructured.NestedString(d.Object, "status", "phase"); have == id && phase == "Detected" {
				return fmt.Errorf("it is still Detected")
			}
		}
		return nil
	})
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// annotations that were used up, or of a gate that was lifted, are gone.
func without(keys ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		for _, k := range keys {
			if v, ok := o.GetAnnotations()[k]; ok {
				return fmt.Errorf("annotation %s still exists: %s", k, v)
			}
		}
		return nil
	}
}

// both conditions hold.
func both(checks ...func(*unstructured.Unstructured) error) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		for _, c := range checks {
			if err := c(o); err != nil {
				return err
			}
		}
		return nil
	}
}

// holds a value at a path.
func holds(want any, path ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		v, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
		if !found {
			v = nil
		}
		if v != want {
			return fmt.Errorf("%v is %v, not %v", path, v, want)
		}
		return nil
	}
}
