package cluster

import (
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // registers the counter of panics
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/await"
)

// poison is the name of the object whose handling panics.
const poison = "a-poison"

// seen collects the names of objects, and panics for poison. It is safe for
// concurrent use.
type seen struct {
	mu    sync.Mutex
	names []string
}

func (s *seen) add(name string) {
	s.mu.Lock()
	s.names = append(s.names, name)
	s.mu.Unlock()
	if name == poison {
		panic("poison")
	}
}

func (s *seen) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.names, name)
}

// fakeObjects of a kind in a fake API server: poison, and "good" after it.
func fakeObjects(resource schema.GroupVersionResource, kind string, content map[string]any) *fake.FakeDynamicClient {
	var all []runtime.Object
	for _, name := range []string{poison, "good"} {
		o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
		o.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
		o.SetName(name)
		o.SetResourceVersion("1")
		all = append(all, o)
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: kind + "List"}, all...)
}

// panicsOf a handler, in the metrics that the processes serve.
func panicsOf(t *testing.T, handler string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "controller_runtime_reconcile_panics_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == handler {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// TestSummaryPanics: an object whose summary panics is that object's error. The
// others of its kind are kept and their handlers called; it does not look deleted,
// and is handled when it can be summarized (KR-13-02).
func TestSummaryPanics(t *testing.T) {
	client := fakeObjects(namespaceResource, "Namespace", nil)
	informer := newInformer(client, namespaceResource, "", func(o *unstructured.Unstructured) any {
		if o.GetName() == poison && o.GetLabels()["healed"] == "" {
			panic("poison")
		}
		return namespaceOf(o)
	})
	events := &seen{}
	_, err := informer.AddEventHandler(Handler("test", cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { events.add("added " + keyOf(o)) },
		UpdateFunc: func(_, o any) { events.add("updated " + keyOf(o)) },
		DeleteFunc: func(o any) { events.add("deleted " + keyOf(o)) },
	}))
	if err != nil {
		t.Fatal(err)
	}
	before := panicsOf(t, "watch Namespace")
	go informer.RunWithContext(t.Context())
	await.Poll(t, "the others to be handled", func() bool { return events.has("added good") })
	if events.has("added " + poison) {
		t.Error("an object without a summary was passed on")
	}
	if got := panicsOf(t, "watch Namespace") - before; got < 1 {
		t.Errorf("counted %v panics", got)
	}
	if _, ok, err := informer.GetStore().GetByKey(poison); !ok || err != nil {
		t.Errorf("the cache has lost the object: %v", err)
	}
	healed := &unstructured.Unstructured{}
	healed.SetGroupVersionKind(namespaceResource.GroupVersion().WithKind("Namespace"))
	healed.SetName(poison)
	healed.SetLabels(map[string]string{"healed": "yes"})
	if _, err := client.Resource(namespaceResource).Update(t.Context(), healed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Poll(t, "the object to be handled", func() bool { return events.has("added " + poison) })
}

// TestHandlersRecover: a panic in what an event of any of our watches calls costs
// that object its event, and nothing else (KR-13-02).
func TestHandlersRecover(t *testing.T) {
	type started struct {
		informer cache.SharedIndexInformer
		err      error
	}
	crd := map[string]any{"spec": map[string]any{"group": "shop.example.org", "scope": "Namespaced",
		"names":    map[string]any{"kind": "Db", "plural": "dbs"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}}}}
	mapper := meta.NewDefaultRESTMapper(nil)
	for name, tc := range map[string]struct {
		reason   string
		resource schema.GroupVersionResource
		kind     string
		content  map[string]any
		// watch calls f for each object, by the callbacks that other packages use.
		watch func(client *fake.FakeDynamicClient, f func(name string)) started
	}{
		"objects": {
			reason:   "the settler's and the gate's view of an object",
			resource: schema.GroupVersionResource{Group: shopDB.Group, Version: shopDB.Version, Resource: "dbs"}, kind: shopDB.Kind,
			watch: func(client *fake.FakeDynamicClient, f func(string)) started {
				kinds, err := NewKinds(client, mapper)
				if err != nil {
					return started{err: err}
				}
				s := NewStates(client, kinds)
				s.OnChange(func(_, o *Object) { f(o.State.Name) })
				w, err := s.newWatch(Info{GVK: shopDB, GVR: shopDB.GroupVersion().WithResource("dbs"), Namespaced: true})
				return started{w.informer, err}
			},
		},
		"kinds": {
			reason: "CRDs, by their kinds", resource: crdResource, kind: "CustomResourceDefinition", content: crd,
			watch: func(client *fake.FakeDynamicClient, f func(string)) started {
				k, err := NewKinds(client, mapper)
				calls := []string{poison, "good"}
				k.OnChange(func(Info) { // the CRDs have no order: the first of them panics
					name := calls[0]
					calls = calls[1:]
					clear(k.byGVK)
					f(name)
				})
				return started{k.informer, err}
			},
		},
		"scope": {
			reason: "the webhook configuration", resource: configurationResource, kind: "MutatingWebhookConfiguration",
			content: map[string]any{"webhooks": []any{map[string]any{"rules": []any{map[string]any{
				"apiGroups": []any{"shop.example.org"}, "resources": []any{"dbs"}}}}}},
			watch: func(client *fake.FakeDynamicClient, f func(string)) started {
				s, err := NewScope(client)
				calls := []string{poison, "good"}
				s.OnChange(func() {
					name := calls[0]
					calls = calls[1:]
					s.mu.Lock()
					s.rules = nil // so that the next event is a change again
					s.mu.Unlock()
					f(name)
				})
				return started{s.informer, err}
			},
		},
		"policies": {
			reason: "Kausality policies", resource: policyResource, kind: "Kausality",
			watch: func(client *fake.FakeDynamicClient, f func(string)) started {
				p, err := NewPolicies(client)
				calls := []string{poison, "good"}
				p.OnChange(func() {
					name := calls[0]
					calls = calls[1:]
					f(name)
				})
				return started{p.informer, err}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := &seen{}
			before := panicsOf(t, name)
			client := fakeObjects(tc.resource, tc.kind, tc.content)
			w := tc.watch(client, objects.add)
			if w.err != nil {
				t.Fatal(w.err)
			}
			go w.informer.RunWithContext(t.Context())
			await.Poll(t, "the object after it", func() bool { return objects.has(poison) && objects.has("good") })
			if got := panicsOf(t, name) - before; got != 1 {
				t.Errorf("%s: counted %v panics, want 1", tc.reason, got)
			}
		})
	}
}

// TestNamespaceHandlerRecovers: the same of what a change of a Namespace calls.
func TestNamespaceHandlerRecovers(t *testing.T) {
	client := fakeObjects(namespaceResource, "Namespace", nil)
	n := NewNamespaces(client)
	objects := &seen{}
	if err := n.OnChange(objects.add); err != nil {
		t.Fatal(err)
	}
	go n.Run(t.Context())
	await.Poll(t, "the Namespaces", n.HasSynced)
	for _, name := range []string{poison, "good"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(namespaceResource.GroupVersion().WithKind("Namespace"))
		o.SetName(name)
		o.SetLabels(map[string]string{"team": "shop"})
		if _, err := client.Resource(namespaceResource).Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await.Poll(t, "the Namespace after it", func() bool { return objects.has(poison) && objects.has("good") })
}

// TestEachRecovers: what is called for many objects is called for those after one
// that panics. Its panic is counted where controller-runtime counts those of its
// workers.
func TestEachRecovers(t *testing.T) {
	objects := &seen{}
	var all []*Object
	for _, name := range []string{poison, "good"} {
		all = append(all, &Object{State: &parent.State{Ref: parent.Ref{Name: name}}})
	}
	before := panicsOf(t, "each")
	Each("each", all, func(o *Object) { objects.add(o.State.Name) })
	if !objects.has("good") || panicsOf(t, "each")-before != 1 {
		t.Errorf("called for %v, counted %v", objects.names, panicsOf(t, "each")-before)
	}
}
