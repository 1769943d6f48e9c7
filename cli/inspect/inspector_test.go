package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// served resources of the stored API server.
var served = map[string][]metav1.APIResource{
	"v1":                      {{Name: "namespaces", Kind: "Namespace"}, {Name: "configmaps", Kind: "ConfigMap", Namespaced: true}},
	"apiextensions.k8s.io/v1": {{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}},
	"example.org/v1":          {{Name: "shops", Kind: "Shop", Namespaced: true, Categories: []string{"composite"}}},
	"cloud.example.org/v1":    {{Name: "databases", Kind: "Database", Namespaced: true, Categories: []string{"managed"}}},
	"kausality.io/v1alpha1": {{Name: "drifts", Kind: "Drift", Namespaced: true}, {Name: "kausalities", Kind: "Kausality"},
		{Name: "approvalrules", Kind: "ApprovalRule"}},
	"kro.run/v1alpha1":                {{Name: "resourcegraphdefinitions", Kind: "ResourceGraphDefinition"}, {Name: "shops", Kind: "Shop", Namespaced: true}},
	"internal.kro.run/v1alpha1":       {{Name: "graphrevisions", Kind: "GraphRevision"}},
	"pkg.crossplane.io/v1":            {{Name: "functionrevisions", Kind: "FunctionRevision"}},
	"admissionregistration.k8s.io/v1": {{Name: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration"}},
}

// storedServer is an API server that serves what it is given, by path, and nothing
// else: GET of objects and lists, discovery and the user. forbidden paths are 403.
type storedServer struct {
	objects   map[string]*unstructured.Unstructured
	forbidden string
}

// ServeHTTP answers one request.
func (s *storedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	write := func(code int, v any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v) // a client that is gone
	}
	failure := func(code int32, reason metav1.StatusReason) {
		write(int(code), metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason})
	}
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
	switch o := s.objects[path]; {
	case s.forbidden != "" && strings.HasPrefix(path, s.forbidden):
		failure(http.StatusForbidden, metav1.StatusReasonForbidden)
	case strings.HasSuffix(path, "/selfsubjectreviews"):
		write(http.StatusCreated, authv1.SelfSubjectReview{Status: authv1.SelfSubjectReviewStatus{UserInfo: authv1.UserInfo{Username: "hans"}}})
	case o != nil:
		write(http.StatusOK, o)
	case served[path] != nil:
		write(http.StatusOK, metav1.APIResourceList{GroupVersion: path, APIResources: served[path]})
	case r.URL.Path == "/api":
		write(http.StatusOK, metav1.APIVersions{Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		write(http.StatusOK, groups())
	default:
		list := s.list(path)
		if list == nil {
			failure(http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		write(http.StatusOK, list)
	}
}

// list of the objects whose path is below one of a resource; nil where the resource is
// not served.
func (s *storedServer) list(path string) map[string]any {
	for gv, resources := range served {
		for _, r := range resources {
			rest, is := strings.CutPrefix(path, gv+"/")
			if namespaced := strings.SplitN(rest, "/", 3); is && namespaced[0] == "namespaces" && len(namespaced) == 3 {
				rest = namespaced[2]
			}
			if !is || rest != r.Name {
				continue
			}
			items := []any{}
			for p, o := range s.objects {
				if strings.HasPrefix(p, gv+"/") && o.GetKind() == r.Kind && (!strings.Contains(path, "/namespaces/") || strings.HasPrefix(p, path)) {
					items = append(items, o.Object)
				}
			}
			return map[string]any{"apiVersion": gv, "kind": r.Kind + "List", "metadata": map[string]any{}, "items": items}
		}
	}
	return nil
}

func groups() metav1.APIGroupList {
	var out metav1.APIGroupList
	for gv := range served {
		if group, version, ok := strings.Cut(gv, "/"); ok {
			v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
			out.Groups = append(out.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
	}
	return out
}

const (
	shopPath     = "example.org/v1/namespaces/team/shops/orders"
	databasePath = "cloud.example.org/v1/namespaces/team/databases/orders-db"
	webhookPath  = "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kausality"
)

// platform: a composite that settled at its last intent, by hans, and its database,
// both guarded in mode enforce.
var platform = map[string]string{
	"v1/namespaces/team": `{apiVersion: v1, kind: Namespace, metadata: {name: team}}`,
	webhookPath: `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kausality}
webhooks:
- name: admission.kausality.io
  failurePolicy: Fail
  rules: [{apiGroups: [example.org, cloud.example.org], resources: ["*"]}]`,
	"apiextensions.k8s.io/v1/customresourcedefinitions/shops.example.org": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.org}
spec: {group: example.org, scope: Namespaced, names: {kind: Shop, plural: shops, categories: [composite]},
  versions: [{name: v1, served: true, storage: true}]}`,
	"apiextensions.k8s.io/v1/customresourcedefinitions/databases.cloud.example.org": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.cloud.example.org}
spec: {group: cloud.example.org, scope: Namespaced, names: {kind: Database, plural: databases, categories: [managed]},
  versions: [{name: v1, served: true, storage: true,
    schema: {openAPIV3Schema: {properties: {spec: {properties: {managementPolicies: {type: array}}}}}}}]}`,
	shopPath: `
apiVersion: example.org/v1
kind: Shop
metadata: {name: orders, namespace: team, uid: shop, generation: 4, annotations: {
  kausality.io/settled-generation: "4", kausality.io/phase: initialized, kausality.io/controllers: 2m2kc,
  kausality.io/trace: '[{"apiVersion":"example.org/v1","kind":"Shop","name":"orders","generation":4,"user":"hans"}]'}}
spec: {size: 20, crossplane: {resourceRefs: [{apiVersion: cloud.example.org/v1, kind: Database, name: orders-db}]}}
status: {conditions: [{type: Ready, status: "True", observedGeneration: 4}, {type: Synced, status: "True", observedGeneration: 4}]}`,
	databasePath: `
apiVersion: cloud.example.org/v1
kind: Database
metadata: {name: orders-db, namespace: team, uid: db, generation: 2,
  ownerReferences: [{apiVersion: example.org/v1, kind: Shop, name: orders, uid: shop, controller: true}],
  annotations: {kausality.io/management-policies: '["*"]', kausality.io/gate: '{"state":"closed"}',
    kausality.io/trace: '[{"apiVersion":"example.org/v1","kind":"Shop","name":"orders","generation":4,"user":"hans"},
      {"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-db","generation":2,"user":"crossplane"}]'}}
spec: {managementPolicies: [Observe], forProvider: {size: 20}}
status: {atProvider: {size: 20}, conditions: [{type: Ready, status: "True", observedGeneration: 2}, {type: Synced, status: "True", observedGeneration: 2}]}`,
}

// inspectorOf the platform after f changed it.
func inspectorOf(t *testing.T, f func(s *storedServer)) (*Inspector, *storedServer) {
	t.Helper()
	s := &storedServer{objects: map[string]*unstructured.Unstructured{}}
	for path, text := range platform {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object), path)
		s.objects[path] = o
	}
	if f != nil {
		f(s)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Database"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Shop"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Shop"}, meta.RESTScopeNamespace)
	mapper.Add(authorship.GraphKind, meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	now := func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }
	i, err := New(t.Context(), &rest.Config{Host: server.URL, QPS: -1}, Options{Mapper: mapper, Now: now})
	require.NoError(t, err)
	return i, s
}

// annotate an object of the server; "" removes.
func (s *storedServer) annotate(path, key, value string) {
	a := s.objects[path].GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	if a[key] = value; value == "" {
		delete(a, key)
	}
	s.objects[path].SetAnnotations(a)
}

// explainCase is a change of the platform, and what is explained of its database.
type explainCase struct {
	reason string
	change func(s *storedServer)
	want   outcome.Reason
	// allowed is the outcome for the controller.
	allowed bool
	mode    v1alpha1.Mode
	check   func(t *testing.T, e *Explanation)
}

// testExplain checks the outcome of a change of the database by the controller.
func testExplain(t *testing.T, cases map[string]explainCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			i, s := inspectorOf(t, tc.change)
			e, err := i.Explain(t.Context(), s.objects[databasePath], nil)
			require.NoError(t, err)
			require.NotEmpty(t, e.Outcomes)
			assert.Equal(t, AttemptController, e.Outcomes[0].Attempt)
			assert.Equal(t, tc.allowed, e.Outcomes[0].Allowed, tc.reason)
			assert.Equal(t, tc.want, e.Outcomes[0].Reason, tc.reason)
			assert.Equal(t, tc.mode, e.Mode.Mode)
			tc.check(t, e)
		})
	}
}

// TestExplain: the outcome of a change by the controller, and what it depends on.
func TestExplain(t *testing.T) {
	testExplain(t, map[string]explainCase{
		"Drift": {reason: "the parent has settled", want: outcome.ReasonDrift, mode: v1alpha1.ModeEnforce, check: func(t *testing.T, e *Explanation) {
			t.Helper()
			assert.True(t, e.Guarded)
			assert.True(t, e.Parent.Settled)
			assert.Nil(t, e.Last, "an intent explains it")
			assert.Equal(t, v1alpha1.GateClosed, e.Gate.State)
			assert.Nil(t, e.Own, "a managed resource has no children")
		}},
		"ModeLog": {
			reason: "the Namespace only logs (KR-05-21)", allowed: true, want: outcome.ReasonDriftLogged, mode: v1alpha1.ModeLog,
			change: func(s *storedServer) { s.annotate("v1/namespaces/team", v1alpha1.AnnotationKeyMode, "log") },
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				assert.Contains(t, e.Mode.From, "of namespace team")
			},
		},
		"Approved": {
			reason: "an approval on the parent (KR-05-11)", allowed: true, want: outcome.ReasonApproved, mode: v1alpha1.ModeEnforce,
			change: func(s *storedServer) {
				s.annotate(shopPath, v1alpha1.AnnotationKeyApprovals, `[{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-db","mode":"always"}]`)
			},
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				require.Len(t, e.Parent.Approvals, 1)
			},
		},
		"Unguarded": {
			reason: "the webhook does not see it", want: outcome.ReasonDrift, mode: v1alpha1.ModeEnforce,
			change: func(s *storedServer) {
				hooks, _ := s.objects[webhookPath].Object["webhooks"].([]any)
				hooks[0].(map[string]any)["rules"] = []any{map[string]any{"apiGroups": []any{"example.org"}, "resources": []any{"*"}}}
			},
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				assert.False(t, e.Guarded)
				assert.Equal(t, "its kind is not guarded", e.Unguarded)
			},
		},
		"Ungated": {
			reason: "a provider of an older runtime (KR-07-12)", want: outcome.ReasonDrift, mode: v1alpha1.ModeEnforce,
			change: func(s *storedServer) {
				crd := s.objects["apiextensions.k8s.io/v1/customresourcedefinitions/databases.cloud.example.org"].Object
				versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
				unstructured.RemoveNestedField(versions[0].(map[string]any), "schema")
				_ = unstructured.SetNestedSlice(crd, versions, "spec", "versions")
			},
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				require.NotNil(t, e.Gate)
				assert.True(t, e.Gate.Unsupported)
			},
		},
		"ParentGone": {
			reason: "an intent on it is not known (KR-05-03)", want: outcome.ReasonParentNotFound, mode: v1alpha1.ModeEnforce,
			change: func(s *storedServer) { delete(s.objects, shopPath) },
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				assert.True(t, e.Parent.Missing)
			},
		},
	})
}

// TestExplainLast: the last change of the object, unless an intent explains it.
func TestExplainLast(t *testing.T) {
	testExplain(t, map[string]explainCase{
		"Gated": {
			reason: "the gate moved the generation, and Crossplane applied an annotation since (KR-12-32)", want: outcome.ReasonDrift, mode: v1alpha1.ModeEnforce,
			change: func(s *storedServer) {
				db := s.objects[databasePath]
				db.SetGeneration(3)
				s.annotate(databasePath, v1alpha1.AnnotationKeyGate, `{"state":"closed","generation":3}`)
				_ = unstructured.SetNestedSlice(db.Object, []any{map[string]any{"manager": "apiextensions.crossplane.io/composed/1", "operation": "Apply",
					"time": "2026-01-02T11:00:00Z", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:forProvider": map[string]any{}}}}},
					"metadata", "managedFields")
			},
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				assert.Nil(t, e.Last, "an intent explains its last change")
			},
		},
		"OtherGeneration": {
			reason: "without the gate such a generation is another change", want: outcome.ReasonDrift, mode: v1alpha1.ModeEnforce,
			change: func(s *storedServer) {
				db := s.objects[databasePath]
				db.SetGeneration(3)
				_ = unstructured.SetNestedSlice(db.Object, []any{map[string]any{"manager": "apiextensions.crossplane.io/composed/1", "operation": "Apply",
					"time": "2026-01-02T11:00:00Z", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:forProvider": map[string]any{}}}}},
					"metadata", "managedFields")
			},
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				require.NotNil(t, e.Last)
				assert.True(t, e.Last.Unattributed)
			},
		},
		"Unrequested": {
			reason: "its last change passed by an approval (KR-07-09)", want: outcome.ReasonDrift, mode: v1alpha1.ModeEnforce,
			change: func(s *storedServer) {
				s.annotate(databasePath, v1alpha1.AnnotationKeyTrace, `[{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-db",`+
					`"generation":2,"user":"crossplane","unrequested":true,"passed":"Approval","causes":[{"kind":"CompositionRevision","name":"shops-2","author":"anna"}]}]`)
			},
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				require.NotNil(t, e.Last)
				assert.Equal(t, v1alpha1.PassedApproval, e.Last.Passed)
				assert.Equal(t, "anna", e.Last.Causes[0].Author)
			},
		},
		"Unobserved": {
			reason: "its last change was made while its policy was suspended (KR-07-04)", want: outcome.ReasonDrift, mode: v1alpha1.ModeEnforce,
			change: func(s *storedServer) {
				s.objects[databasePath].SetGeneration(3)
				s.objects[databasePath].SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate,
					Time: new(metav1.Now()), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:forProvider":{"f:size":{}}}}`)}}})
			},
			check: func(t *testing.T, e *Explanation) {
				t.Helper()
				require.NotNil(t, e.Last)
				assert.True(t, e.Last.Unattributed)
			},
		},
	})
}

// TestChain: the hops of the annotation with absolute Namespaces, and notes about what
// they do not show.
func TestChain(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		change   func(s *storedServer)
		hops     string
		recorded bool
		note     string
	}{
		"Recorded": {reason: "the annotation has it", hops: "Shop team/orders by hans, Database team/orders-db by crossplane", recorded: true},
		"Ahead": {
			reason: "the parent has a newer intent", hops: "Shop team/orders by hans, Database team/orders-db by crossplane", recorded: true,
			change: func(s *storedServer) {
				s.objects[shopPath].SetGeneration(5)
				s.annotate(shopPath, v1alpha1.AnnotationKeyTrace, `[{"apiVersion":"example.org/v1","kind":"Shop","name":"orders","generation":5,"user":"eva"}]`)
			},
			note: "was changed by eva (generation 5)",
		},
		"NotRecorded": {
			reason: "the object has no trace (KR-01-12)", hops: "Database team/orders-db by ",
			change: func(s *storedServer) { s.annotate(databasePath, v1alpha1.AnnotationKeyTrace, "") },
			note:   "Nothing is recorded on this object: its last change was not observed.",
		},
		"ParentGone": {
			reason: "it explains the object no more", hops: "Shop team/orders by hans, Database team/orders-db by crossplane", recorded: true,
			change: func(s *storedServer) { delete(s.objects, shopPath) }, note: "Its parent Shop team/orders does not exist.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			i, s := inspectorOf(t, tc.change)
			c, err := i.Chain(t.Context(), s.objects[databasePath])
			require.NoError(t, err)
			var hops []string
			for _, h := range c.Hops {
				hops = append(hops, h.Kind+" "+h.Namespace+"/"+h.Name+" by "+h.User)
			}
			assert.Equal(t, tc.hops, strings.Join(hops, ", "), tc.reason)
			assert.Equal(t, tc.recorded, c.Recorded)
			if notes := strings.Join(c.Notes, " "); tc.note == "" {
				assert.Empty(t, notes)
			} else {
				assert.Contains(t, notes, tc.note)
			}
		})
	}
}

// TestChainGarbage: an annotation that does not parse is an error, not an empty chain.
func TestChainGarbage(t *testing.T) {
	i, s := inspectorOf(t, func(s *storedServer) { s.annotate(databasePath, v1alpha1.AnnotationKeyTrace, "[{") })
	_, err := i.Chain(t.Context(), s.objects[databasePath])
	require.ErrorContains(t, err, v1alpha1.AnnotationKeyTrace)
}

// put an object at a path.
func (s *storedServer) put(t *testing.T, path, text string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	s.objects[path] = o
}

// splitHook is a webhook for the Namespace team, or for all others, as the policy controller writes them (KR-12-10).
func splitHook(hook any, failurePolicy, operator string) map[string]any {
	out := runtime.DeepCopyJSON(hook.(map[string]any)) //nolint:errcheck // It panics.
	out["failurePolicy"] = failurePolicy
	out["namespaceSelector"] = map[string]any{"matchExpressions": []any{
		map[string]any{"key": "kubernetes.io/metadata.name", "operator": operator, "values": []any{"team"}}}}
	return out
}

// TestOutage: an explanation has what happens to changes while the webhook does not answer, and whether it does (KR-12-11).
func TestOutage(t *testing.T) {
	const policies = "kausality.io/v1alpha1/kausalities/shop"
	policy := func(status string) string {
		return `{apiVersion: kausality.io/v1alpha1, kind: Kausality, metadata: {name: shop},
  spec: {mode: enforce, resources: [{apiGroups: [example.org, cloud.example.org], resources: ["*"]}]},
  status: {conditions: [{type: Answering, status: "` + status + `", message: "no replica of the webhook is running"}]}}`
	}
	for name, tc := range map[string]struct {
		change     func(s *storedServer)
		outage     Outage
		unanswered string
	}{
		"Refuses": {outage: OutageRefused},
		"Allows": {outage: OutageAllowed, change: func(s *storedServer) {
			hooks, _ := s.objects[webhookPath].Object["webhooks"].([]any)
			hooks[0].(map[string]any)["failurePolicy"] = "Ignore" //nolint:errcheck // It panics.
		}},
		"Unguarded": {change: func(s *storedServer) { delete(s.objects, webhookPath) }},
		"Answers":   {outage: OutageRefused, change: func(s *storedServer) { s.put(t, policies, policy("True")) }},
		"Unanswered": {outage: OutageRefused, unanswered: "no replica of the webhook is running",
			change: func(s *storedServer) { s.put(t, policies, policy("False")) }},
	} {
		t.Run(name, func(t *testing.T) {
			i, s := inspectorOf(t, tc.change)
			e, err := i.Explain(t.Context(), s.objects[shopPath], nil)
			require.NoError(t, err)
			assert.Equal(t, tc.outage, e.DuringOutage)
			assert.Equal(t, tc.unanswered, e.Unanswered)
			c, err := i.Coverage(t.Context(), "")
			require.NoError(t, err)
			assert.Equal(t, tc.unanswered, c.Unanswered)
		})
	}
}

// TestCoverage: each object is protected, or has a gap.
func TestCoverage(t *testing.T) {
	for name, tc := range map[string]struct {
		reason    string
		change    func(s *storedServer)
		protected int
		gaps      string
	}{
		"Protected": {reason: "both are settled and gated", protected: 2},
		"Unguarded": {
			reason: "there is no webhook", gaps: "Unguarded databases.cloud.example.org 1, Unguarded shops.example.org 1",
			change: func(s *storedServer) { delete(s.objects, webhookPath) },
		},
		"FailOpen": {
			reason: "the API server does not know of the mode", protected: 0, gaps: "FailOpen databases.cloud.example.org 1, FailOpen shops.example.org 1",
			change: func(s *storedServer) {
				s.annotate("v1/namespaces/team", v1alpha1.AnnotationKeyMode, "enforce")
				hooks, _ := s.objects[webhookPath].Object["webhooks"].([]any)
				hooks[0].(map[string]any)["failurePolicy"] = "Ignore" //nolint:errcheck // It panics.
			},
		},
		"FailClosedByNamespace": {
			reason: "the policy controller has split the webhook", protected: 2,
			change: func(s *storedServer) {
				s.annotate("v1/namespaces/team", v1alpha1.AnnotationKeyMode, "enforce")
				hooks, _ := s.objects[webhookPath].Object["webhooks"].([]any)
				s.objects[webhookPath].Object["webhooks"] = []any{splitHook(hooks[0], "Ignore", "NotIn"), splitHook(hooks[0], "Fail", "In")}
				s.objects["v1/namespaces/team"].SetLabels(map[string]string{"kubernetes.io/metadata.name": "team"})
			},
		},
		"Ungated": {
			reason: "its gate is not installed", protected: 1, gaps: "Ungated databases.cloud.example.org 1",
			change: func(s *storedServer) {
				s.annotate(databasePath, v1alpha1.AnnotationKeyManagementPolicies, "")
				spec, _ := s.objects[databasePath].Object["spec"].(map[string]any)
				spec["managementPolicies"] = []any{"*"}
			},
		},
		"Unread": {
			reason: "the user may not list them", protected: 1, gaps: "Unread databases.cloud.example.org 0",
			change: func(s *storedServer) { s.forbidden = "cloud.example.org/v1/databases" },
		},
		"Always": {
			reason: "whatever its controller does is approved", protected: 1, gaps: "ApprovedAlways shops.example.org 1",
			change: func(s *storedServer) {
				s.annotate(shopPath, v1alpha1.AnnotationKeyApprovals, `[{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"*","mode":"always"}]`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			i, _ := inspectorOf(t, tc.change)
			c, err := i.Coverage(t.Context(), "")
			require.NoError(t, err)
			var gaps []string
			for _, g := range c.Gaps {
				gaps = append(gaps, fmt.Sprintf("%s %s %d", g.Gap, g.Resource, g.Count))
			}
			assert.Equal(t, tc.gaps, strings.Join(gaps, ", "), tc.reason)
			assert.Equal(t, tc.protected, c.Protected)
		})
	}
}
