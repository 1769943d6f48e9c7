package informer

import (
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // registers the counter of panics
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kausality-io/function-kausality/internal/await"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

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
	client := fakeObjects(namespaces, "Namespace", nil)
	watch := New(client, namespaces, "", func(o *unstructured.Unstructured) any {
		if o.GetName() == poison && o.GetLabels()["healed"] == "" {
			panic("poison")
		}
		m := MetaOf(o)
		return &m
	})
	events := &seen{}
	_, err := watch.AddEventHandler(Handler("test", cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { events.add("added " + keyOf(o)) },
		UpdateFunc: func(_, o any) { events.add("updated " + keyOf(o)) },
		DeleteFunc: func(o any) { events.add("deleted " + keyOf(o)) },
	}))
	if err != nil {
		t.Fatal(err)
	}
	before := panicsOf(t, "watch Namespace")
	go watch.RunWithContext(t.Context())
	await.Poll(t, "the others to be handled", func() bool { return events.has("added good") })
	if events.has("added " + poison) {
		t.Error("an object without a summary was passed on")
	}
	if got := panicsOf(t, "watch Namespace") - before; got < 1 {
		t.Errorf("counted %v panics", got)
	}
	if _, ok, err := watch.GetStore().GetByKey(poison); !ok || err != nil {
		t.Errorf("the cache has lost the object: %v", err)
	}
	healed := &unstructured.Unstructured{}
	healed.SetGroupVersionKind(namespaces.GroupVersion().WithKind("Namespace"))
	healed.SetName(poison)
	healed.SetLabels(map[string]string{"healed": "yes"})
	if _, err := client.Resource(namespaces).Update(t.Context(), healed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Poll(t, "the object to be handled", func() bool { return events.has("added " + poison) })
}

// TestEachRecovers: what is called for many objects is called for those after one
// that panics. Its panic is counted where controller-runtime counts those of its
// workers.
func TestEachRecovers(t *testing.T) {
	objects := &seen{}
	var all []*unstructured.Unstructured
	for _, name := range []string{poison, "good"} {
		o := &unstructured.Unstructured{}
		o.SetName(name)
		all = append(all, o)
	}
	before := panicsOf(t, "each")
	Each("each", all, func(o *unstructured.Unstructured) { objects.add(o.GetName()) })
	if !objects.has("good") || panicsOf(t, "each")-before != 1 {
		t.Errorf("called for %v, counted %v", objects.names, panicsOf(t, "each")-before)
	}
}
