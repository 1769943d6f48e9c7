package viewtest

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view"
)

const (
	ShopPath     = "example.org/v1/namespaces/team/shops/orders"
	DatabasePath = "cloud.example.org/v1/namespaces/team/databases/orders-db"
	DriftPath    = "kausality.io/v1alpha1/namespaces/team/drifts/"
	HeldID       = "7642947475a29290"
)

// platform: a composite of hans, and its database behind a gate.
var platform = map[string]string{
	"v1/namespaces/team": `{apiVersion: v1, kind: Namespace, metadata: {name: team}}`,
	"admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kausality": `
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: kausality},
 webhooks: [{name: admission.kausality.io, failurePolicy: Fail, rules: [{apiGroups: [example.org, cloud.example.org], resources: ["*"]}]}]}`,
	"apiextensions.k8s.io/v1/customresourcedefinitions/shops.example.org": `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: shops.example.org},
 spec: {group: example.org, scope: Namespaced, names: {kind: Shop, plural: shops, categories: [composite]},
  versions: [{name: v1, served: true, storage: true}]}}`,
	"apiextensions.k8s.io/v1/customresourcedefinitions/databases.cloud.example.org": `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: databases.cloud.example.org},
 spec: {group: cloud.example.org, scope: Namespaced, names: {kind: Database, plural: databases, categories: [managed]},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {properties: {spec: {properties: {managementPolicies: {type: array}}}}}}}]}}`,
	ShopPath: `
apiVersion: example.org/v1
kind: Shop
metadata: {name: orders, namespace: team, uid: shop, generation: 4, annotations: {
  kausality.io/settled-generation: "4", kausality.io/phase: initialized, kausality.io/controllers: 2m2kc,
  kausality.io/trace: '[{"apiVersion":"example.org/v1","kind":"Shop","name":"orders","generation":4,"user":"hans","labels":{"ticket":"SHOP-1"}}]'}}
spec: {size: 20, crossplane: {resourceRefs: [{apiVersion: cloud.example.org/v1, kind: Database, name: orders-db}]}}
status: {conditions: [{type: Ready, status: "True", observedGeneration: 4}, {type: Synced, status: "True", observedGeneration: 4}]}`,
	DatabasePath: `
apiVersion: cloud.example.org/v1
kind: Database
metadata: {name: orders-db, namespace: team, uid: db, generation: 2,
  ownerReferences: [{apiVersion: example.org/v1, kind: Shop, name: orders, uid: shop, controller: true}],
  annotations: {crossplane.io/external-name: db-4711, kausality.io/management-policies: '["*"]', kausality.io/gate: '{"state":"closed"}',
    kausality.io/trace: '[{"apiVersion":"example.org/v1","kind":"Shop","name":"orders","generation":4,"user":"hans","labels":{"ticket":"SHOP-1"}},
      {"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-db","generation":2,"user":"crossplane"}]'}}
spec: {managementPolicies: [Observe], forProvider: {size: 20, password: hunter2}}
status: {atProvider: {size: 20}, conditions: [{type: Ready, status: "True", observedGeneration: 2}, {type: Synced, status: "True", observedGeneration: 2}]}`,
}

// Morning is when Held began to wait; the clock of New begins an hour later.
var Morning = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// Held returns a change that waits.
func Held(edit func(*v1alpha1.Drift)) *v1alpha1.Drift {
	since := metav1.NewTime(Morning)
	d := &v1alpha1.Drift{
		TypeMeta:   metav1.TypeMeta{APIVersion: "kausality.io/v1alpha1", Kind: "Drift"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: HeldID, UID: "d1", CreationTimestamp: since},
	}
	d.Spec = v1alpha1.DriftSpec{
		ID: HeldID, Digest: HeldID + strings.Repeat("ab", 24), Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE",
		SuggestedApproval: "kubectl annotate …",
		Parent:            v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "Shop", Namespace: "team", Name: "orders", UID: "shop"},
		Child:             v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "team", Name: "orders-db", UID: "db"},
		Difference:        []v1alpha1.FieldDifference{{Path: "spec.forProvider.size", Verb: "Mutate", Old: "20", New: "50"}},
		Causes:            []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: "shops-7f3", Author: "alice@example.com"}},
	}
	d.Status.Phase, d.Status.Since = v1alpha1.DriftDetected, &since
	if edit != nil {
		edit(d)
	}
	return d
}

// New Server with the platform and Drifts.
func New(t *testing.T, drifts ...*v1alpha1.Drift) (*Server, view.Options, *Clock) {
	t.Helper()
	s := &Server{Objects: map[string]map[string]any{}}
	for path, text := range platform {
		o := map[string]any{}
		raw, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err, path)
		require.NoError(t, json.Unmarshal(raw, &o), path)
		s.store(path, o)
	}
	for _, d := range drifts {
		s.Put(t, d)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Database"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Shop"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	clock := &Clock{at: Morning.Add(time.Hour)}
	return s, view.Options{
		Config: &rest.Config{Host: server.URL, QPS: -1, WrapTransport: s.wrap}, Mapper: mapper, User: "hans", Namespace: "team", Now: clock.Now,
	}, clock
}

// Clock is a clock that tests move.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Move moves the clock.
func (c *Clock) Move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(by)
}
