package fn

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/policies"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

const following = `{"mode":"enforce","settleGrace":"10s","policySelector":{}}`

// readableCRD of Kausality policies: the role of its release lets Crossplane read all.
var readableCRD = map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": map[string]any{"name": "kausalities.kausality.io", "annotations": map[string]any{v1alpha1.AnnotationKeyCrossplaneReads: "all"}}}

// installed has Crossplane find an installation with these objects in the cluster.
func (s *stage) installed(found map[string]*fnv1.Resources) {
	s.required = map[string]*fnv1.Resources{policies.RequirementKausalityCRD: resources(readableCRD)}
	for _, name := range []string{policies.RequirementPolicies, policies.RequirementUpgrades, policies.RequirementApprovals,
		policies.RequirementClusterApprovals, policies.RequirementRulesCRD, policies.RequirementKausalities,
		policies.RequirementConfiguration, policies.RequirementNamespace + "shop"} {
		s.required[name] = &fnv1.Resources{}
	}
	maps.Copy(s.required, found)
}

// kausalityPolicy for all Things, as the API server returns it.
func kausalityPolicy(spec map[string]any) *fnv1.Resources {
	spec["resources"] = []any{map[string]any{"apiGroups": []any{"app.example.org"}, "resources": []any{"things"}}}
	return resources(map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": "Kausality", "metadata": map[string]any{"name": "all"}, "spec": spec})
}

func shop(metadata map[string]any) *fnv1.Resources {
	metadata["name"] = "shop"
	return resources(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
}

// clusterApproval is a ClusterApprovalPolicy with a rule.
func clusterApproval(rule map[string]any) map[string]*fnv1.Resources {
	return map[string]*fnv1.Resources{
		policies.RequirementClusterApprovals: exception(v1alpha1.KindClusterApprovalPolicy, map[string]any{"name": "a"}, rule),
	}
}

func exception(kind string, metadata, rule map[string]any) *fnv1.Resources {
	return resources(map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": kind, "metadata": metadata,
		"spec": map[string]any{"rules": []any{rule}}})
}

// Where the role of the installation lets Crossplane read what the cluster
// configures, all of that is required (KR-09-08).
func TestRequiresWhatIsReadable(t *testing.T) {
	s := newStage(t, following)
	s.installed(nil)
	rsp := s.run(s.request(desire{"b": plain("x")}))
	want := slices.Sorted(maps.Keys(s.required))
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(rsp.GetRequirements().GetExtraResources()))); d != "" { //nolint:staticcheck // For v1.20.
		t.Errorf("requirements: -want +got\n%s", d)
	}
	if s.rsp = rsp; strings.Contains(condition(s), "do not count") {
		t.Errorf("all was fetched: %s", condition(s))
	}
}

func condition(s *stage) string {
	_, _, message := s.condition()
	return message
}

// The mode of a composed resource is that of the webhook: of its annotation, its
// Namespace, the Kausality policy that covers it, and only then of the Input. While
// a policy is suspended or Kausality is being removed, nothing is held (KR-09-23).
func TestModeOfTheCluster(t *testing.T) {
	const enforce, log = "enforce", "log"
	mode := func(m string) map[string]any {
		return map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyMode: m}}
	}
	removal := resources(map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "kausality", "annotations": map[string]any{v1alpha1.AnnotationKeyRemoval: "2026-01-01T00:00:00Z"}}})
	for name, tc := range map[string]struct {
		input string
		found map[string]*fnv1.Resources
		holds bool
	}{
		"Input":     {input: enforce, holds: true},
		"InputLog":  {input: log},
		"Policy":    {input: log, found: map[string]*fnv1.Resources{policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": enforce})}, holds: true},
		"PolicyLog": {input: enforce, found: map[string]*fnv1.Resources{policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": log})}},
		"PolicyElsewhere": {input: enforce, holds: true, found: map[string]*fnv1.Resources{
			policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": log, "namespaces": map[string]any{"names": []any{"other"}}})}},
		"PolicySelects": {input: log, holds: true, found: map[string]*fnv1.Resources{
			policies.RequirementNamespace + "shop": shop(map[string]any{"labels": map[string]any{"tier": "prod"}}),
			policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": enforce,
				"namespaces": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"tier": "prod"}}}})}},
		"Namespace": {input: log, holds: true, found: map[string]*fnv1.Resources{policies.RequirementNamespace + "shop": shop(mode(enforce)),
			policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": log})}},
		"NamespaceLog": {input: enforce, found: map[string]*fnv1.Resources{policies.RequirementNamespace + "shop": shop(mode(log)),
			policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": enforce})}},
		"Suspended": {input: enforce, found: map[string]*fnv1.Resources{
			policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": enforce, "suspend": true})}},
		"Removing": {input: enforce, found: map[string]*fnv1.Resources{policies.RequirementConfiguration: removal,
			policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": enforce})}},
		"Unreadable": {input: enforce, holds: true, found: map[string]*fnv1.Resources{policies.RequirementKausalities: resources(map[string]any{
			"metadata": map[string]any{"name": "odd"}, "spec": "x"})}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, strings.Replace(following, enforce, tc.input, 1))
			s.installed(tc.found)
			want := desire{"b": plain("x")}
			s.reconcile(want)
			s.settle(want)
			want["b"] = plain("y")
			s.reconcile(want)
			writes := []string{"update b"}
			if tc.holds {
				writes = []string{"hold b"}
			}
			s.wantWrites(writes...)
			s.stable(want)
		})
	}
}

// A composite counts as initialized by the conditions of the policies' lifecycle, as for the webhook: until then an AllowancePolicy narrows
// nothing (KR-03-09, KR-09-23).
func TestLifecycleOfTheCluster(t *testing.T) {
	provisioned := map[string]any{"apiGroup": "example.org", "kind": "XDatabase", "initialized": []any{"Provisioned"}}
	for name, tc := range map[string]struct {
		lifecycle []any
		condition string
		writes    string
	}{
		"Ready":          {condition: "Synced", writes: "hold b"},
		"NotProvisioned": {lifecycle: []any{provisioned}, condition: "Synced", writes: "update b"},
		"Provisioned":    {lifecycle: []any{provisioned}, condition: "Provisioned", writes: "hold b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, strings.Replace(narrow, `"settleGrace"`, `"policySelector":{},"settleGrace"`, 1))
			s.installed(map[string]*fnv1.Resources{policies.RequirementKausalities: kausalityPolicy(map[string]any{"mode": "enforce", "lifecycle": tc.lifecycle})})
			intent := func(generation int64) {
				s.annotate(v1alpha1.AnnotationKeyTrace, fmt.Sprintf(
					`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":%d,"user":"hans@example.com","timestamp":%q}]`,
					generation, s.now.Format(time.RFC3339)))
			}
			intent(1)
			want := desire{"b": plain("x")}
			s.reconcile(want)
			s.ready()
			conditions, _, _ := unstructured.NestedSlice(s.xr.Object, "status", "conditions")
			require.NoError(t, unstructured.SetNestedSlice(s.xr.Object, append(conditions, map[string]any{"type": tc.condition, "status": "True"}),
				"status", "conditions"))
			s.intend(2)
			intent(2)
			want["b"] = plain("y")
			s.reconcile(want)
			s.wantWrites(tc.writes)
		})
	}
}

// What Crossplane composes is held by the freeze of its Namespace and of a policy that covers it, as by that of the composite,
// in both modes, and carried out once that has ended (KR-14-39).
func TestFreezeOfTheCluster(t *testing.T) {
	frozen := func(value string) map[string]*fnv1.Resources {
		return map[string]*fnv1.Resources{
			policies.RequirementNamespace + "shop": shop(map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyFreeze: value}})}
	}
	policy := func(freeze map[string]any) map[string]*fnv1.Resources {
		return map[string]*fnv1.Resources{policies.RequirementKausalities: kausalityPolicy(map[string]any{"freeze": freeze})}
	}
	for name, tc := range map[string]struct {
		found map[string]*fnv1.Resources
		holds string
	}{
		"Namespace":     {found: frozen(`{"user":"alice","message":"audit"}`), holds: "was frozen with Namespace shop by alice (audit)"},
		"NamespaceOver": {found: frozen(`{"expiry":"2020-01-01T00:00:00Z"}`)},
		"False":         {found: frozen("false")},
		"Policy":        {found: policy(map[string]any{"user": "alice"}), holds: "was frozen with Kausality policy all by alice"},
		"PolicyOver":    {found: policy(map[string]any{"expiry": "2020-01-01T00:00:00Z"})},
	} {
		for _, mode := range []string{"enforce", "log"} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				s := newStage(t, strings.Replace(following, "enforce", mode, 1))
				s.installed(nil)
				want := desire{"b": plain("x")}
				s.reconcile(want)
				s.settle(want)
				s.installed(tc.found)
				s.intend(2) // which would be carried out
				want["b"] = plain("y")
				s.reconcile(want)
				if tc.holds == "" {
					s.wantWrites("update b")
					return
				}
				s.wantWrites("hold b")
				if got := condition(s); !strings.Contains(got, tc.holds) {
					t.Errorf("want %q in the condition, got %s", tc.holds, got)
				}
				s.installed(nil)
				s.reconcile(want)
				s.wantWrites("update b")
			})
		}
	}
}

const ofCrossplane = `object.spec.value == "y" && request.user == "system:serviceaccount:crossplane-system:crossplane" &&
	"system:serviceaccounts" in request.groups`

// ApprovalPolicies and ClusterApprovalPolicies approve what the function would hold,
// as they do at the webhook. Without a webhook nothing claims their rules: those
// count that need no claim (KR-09-24).
func TestApprovalPolicies(t *testing.T) {
	always := map[string]any{"kind": "Thing", "mode": "always"}
	own := map[string]any{"name": "crossplane", "namespace": "crossplane-system"}
	with := func(more map[string]any) map[string]any {
		out := maps.Clone(always)
		maps.Copy(out, more)
		return out
	}
	for name, tc := range map[string]struct {
		found  map[string]*fnv1.Resources
		input  string
		passes bool
		note   string
	}{
		"Cluster":      {found: clusterApproval(always), passes: true},
		"OfCrossplane": {found: map[string]*fnv1.Resources{policies.RequirementApprovals: exception("ApprovalPolicy", own, always)}, passes: true},
		"OfAnother": {found: map[string]*fnv1.Resources{policies.RequirementApprovals: exception("ApprovalPolicy",
			map[string]any{"name": "crossplane", "namespace": "elsewhere"}, always)}},
		"AnotherCrossplane": {input: strings.Replace(following, `"settleGrace"`, `"serviceAccount":"system:serviceaccount:upbound:crossplane","settleGrace"`, 1),
			found: map[string]*fnv1.Resources{policies.RequirementApprovals: exception("ApprovalPolicy", own, always)}},
		"OtherKind":    {found: clusterApproval(with(map[string]any{"kind": "Database"}))},
		"Matches":      {passes: true, found: clusterApproval(with(map[string]any{"match": map[string]any{"cel": ofCrossplane}}))},
		"DoesNotMatch": {found: clusterApproval(with(map[string]any{"match": map[string]any{"cel": `object.spec.value == "z"`}}))},
		"Expired":      {found: clusterApproval(with(map[string]any{"expiry": t0.Add(time.Second).Format(time.RFC3339)}))},
		"NotExpired":   {passes: true, found: clusterApproval(with(map[string]any{"expiry": t0.Add(time.Hour).Format(time.RFC3339)}))},
		"OnceAlone":    {found: clusterApproval(with(map[string]any{"mode": "once"}))},
		"Broken":       {note: "ClusterApprovalPolicy a: ", found: clusterApproval(with(map[string]any{"match": map[string]any{"cel": "object."}}))},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.input == "" {
				tc.input = following
			}
			s := newStage(t, tc.input)
			s.installed(tc.found)
			want := desire{"b": plain("x")}
			s.reconcile(want)
			s.settle(want)
			want["b"] = plain("y")
			s.reconcile(want)
			writes := []string{"hold b"}
			if tc.passes {
				writes = []string{"update b"}
			}
			s.wantWrites(writes...)
			if !slices.ContainsFunc(s.rsp.GetResults(), func(r *fnv1.Result) bool { return strings.Contains(r.GetMessage(), tc.note) }) && tc.note != "" {
				t.Errorf("results: %v", s.rsp.GetResults())
			}
			s.stable(want)
		})
	}
}

// Where a webhook guards a resource, rules that it claims count as well: the first
// change passes, and so does its repetition from a stale read, for which the claim
// exists. Another change does not (KR-09-24).
func TestClaimedApprovalPolicies(t *testing.T) {
	s := newStage(t, following)
	once := map[string]any{"kind": "Thing", "mode": "once"}
	s.installed(clusterApproval(once))
	s.annotate(v1alpha1.AnnotationKeyTrace,
		fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans","timestamp":%q}]`, t0.Format(time.RFC3339)))
	want := desire{"b": plain("x")}
	s.reconcile(want)
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
	annotations := s.live["b"].GetAnnotations()
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")

	annotations[v1alpha1.AnnotationKeyUpdaters] = "0123456789abcdef"
	s.live["b"].SetAnnotations(annotations)
	d := s.decided(want, "b")
	if !d.Allowed || d.PolicyClaim == nil {
		t.Fatalf("a rule without a claim: %+v", d)
	}
	claim := d.PolicyClaim.Claim
	webhooks := claim
	webhooks.User, webhooks.ID = "fedcba9876543210", "another"
	raw, err := json.Marshal(webhooks)
	require.NoError(t, err)
	var stored map[string]any
	require.NoError(t, json.Unmarshal(raw, &stored))
	found := clusterApproval(once)
	policy := ssa.Object(found[policies.RequirementClusterApprovals].GetItems()[0].GetResource())
	policy["status"] = map[string]any{"claims": []any{stored}}
	s.installed(map[string]*fnv1.Resources{policies.RequirementClusterApprovals: resources(policy)})
	if d := s.decided(want, "b"); !d.Allowed || d.PolicyClaim != nil {
		t.Errorf("the same change from a stale read: %+v", d)
	}
	want["b"] = plain("z")
	if d := s.decided(want, "b"); d.Allowed {
		t.Errorf("the rule is used, and another change passes: %+v", d)
	}
}

// decided is the Decision about a resource of the next run, which is not applied.
func (s *stage) decided(want desire, name string) admission.Decision {
	s.t.Helper()
	req := s.request(want)
	cfg, err := configOf(req.GetInput())
	require.NoError(s.t, err)
	r := newRun(cfg, s.now, s.xr, req, response.To(req, response.DefaultTTL))
	r.grant(s.t.Context())
	r.decide(s.t.Context())
	for _, res := range r.resources {
		if res.name == name {
			return res.decision
		}
	}
	return admission.Decision{}
}

// After a revision that an ApprovalPolicy lets pass, and an annotation by the author
// of the spec, the next revision is no intent (KR-09-10).
func TestRevisionAfterAnnotation(t *testing.T) {
	other := func(value string) map[string]any {
		return map[string]any{"apiVersion": "app.example.org/v1", "kind": "Other", "spec": map[string]any{"value": value}}
	}
	s := newStage(t, following)
	s.installed(clusterApproval(map[string]any{"kind": "Thing", "mode": "always"}))
	want := desire{"a": plain("x"), "b": other("x")}
	s.reconcile(want)
	s.settle(want)
	s.now = s.now.Add(time.Minute)
	s.xr.SetGeneration(s.xr.GetGeneration() + 1)
	want["a"], want["b"] = plain("y"), other("y")
	s.reconcile(want)
	s.wantWrites("update a", "hold b")
	s.person("kubectl-create", "f:spec", "f:size")
	s.installed(nil)
	s.xr.SetGeneration(s.xr.GetGeneration() + 1)
	want["a"] = plain("z")
	s.reconcile(want)
	s.wantWrites("hold a")
	s.stable(want)
}
