package cluster

import (
	"context"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
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
func fakeObjects(resource schema.GroupVersionResource, kind string, content func(name string) map[string]any) *fake.FakeDynamicClient {
	var all []runtime.Object
	for _, name := range []string{poison, "good"} {
		o := &unstructured.Unstructured{}
		if content != nil {
			o.Object = content(name)
		}
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

// TestHandlersRecover: a panic in what an event of any of our watches calls costs
// that object its event, and nothing else (KR-13-02).
func TestHandlersRecover(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for name, tc := range map[string]struct {
		reason   string
		resource schema.GroupVersionResource
		kind     string
		// content of the object of a name.
		content func(name string) map[string]any
		// watch calls f for each object, by the callbacks that other packages use, until the context ends.
		watch func(ctx context.Context, client *fake.FakeDynamicClient, f func(name string)) error
	}{
		"objects": {
			reason: "the settler's and the gate's view of an object", resource: resourceOf(shopDB), kind: shopDB.Kind,
			watch: func(ctx context.Context, client *fake.FakeDynamicClient, f func(string)) error {
				k, err := kinds.New(client, mapper)
				if err != nil {
					return err
				}
				k.LearnCRD(definition{gvk: shopDB}.crd())
				s := states.New(client, k)
				s.OnChange(func(_, o *states.Object) { f(o.State.Name) })
				err = s.Watch(shopDB)
				go s.Run(ctx)
				return err
			},
		},
		"kinds": {
			reason: "CRDs, by their kinds", resource: kinds.CRDs, kind: "CustomResourceDefinition",
			content: func(name string) map[string]any {
				return definition{gvk: schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: name}}.crd().Object
			},
			watch: func(ctx context.Context, client *fake.FakeDynamicClient, f func(string)) error {
				k, err := kinds.New(client, mapper)
				k.OnChange(func(i kinds.Info) { f(i.GVK.Kind) })
				go k.Run(ctx)
				return err
			},
		},
		"scope": {
			reason: "the webhook configuration", resource: scope.Configurations, kind: "MutatingWebhookConfiguration",
			content: func(name string) map[string]any {
				return map[string]any{"webhooks": []any{map[string]any{"rules": []any{map[string]any{
					"apiGroups": []any{"shop.example.org"}, "resources": []any{name}}}}}}
			},
			watch: func(ctx context.Context, client *fake.FakeDynamicClient, f func(string)) error {
				s, err := scope.New(client)
				calls := []string{poison, "good"}
				s.OnChange(func() { // whichever comes first
					name := calls[0]
					calls = calls[1:]
					f(name)
				})
				go s.Run(ctx)
				return err
			},
		},
		"policies": {
			reason: "Kausality policies", resource: policies.Resource, kind: "Kausality",
			watch: func(ctx context.Context, client *fake.FakeDynamicClient, f func(string)) error {
				p, err := policies.New(client)
				calls := []string{poison, "good"}
				p.OnChange(func() {
					name := calls[0]
					calls = calls[1:]
					f(name)
				})
				go p.Run(ctx)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := &seen{}
			before := panicsOf(t, name)
			client := fakeObjects(tc.resource, tc.kind, tc.content)
			if err := tc.watch(t.Context(), client, objects.add); err != nil {
				t.Fatal(err)
			}
			await.Poll(t, "the object after it", func() bool { return objects.has(poison) && objects.has("good") })
			if got := panicsOf(t, name) - before; got != 1 {
				t.Errorf("%s: counted %v panics, want 1", tc.reason, got)
			}
		})
	}
}

// TestNamespaceHandlerRecovers: the same of what a change of a Namespace calls.
func TestNamespaceHandlerRecovers(t *testing.T) {
	client := fakeObjects(policies.NamespaceResource, "Namespace", nil)
	n := policies.NewNamespaces(client)
	objects := &seen{}
	if err := n.OnChange(objects.add); err != nil {
		t.Fatal(err)
	}
	go n.Run(t.Context())
	await.Poll(t, "the Namespaces", n.HasSynced)
	for _, name := range []string{poison, "good"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(policies.NamespaceResource.GroupVersion().WithKind("Namespace"))
		o.SetName(name)
		o.SetLabels(map[string]string{"team": "shop"})
		if _, err := client.Resource(policies.NamespaceResource).Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await.Poll(t, "the Namespace after it", func() bool { return objects.has(poison) && objects.has("good") })
}
