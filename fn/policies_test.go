package fn

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/policies"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

const selecting = `{"mode":"enforce","settleGrace":"10s","policySelector":{"matchLabels":{"team":"shop"}}}`

// sizePolicy is an AllowancePolicy as the API server returns it.
func sizePolicy(name string) map[string]any {
	return map[string]any{
		"apiVersion": "kausality.io/v1alpha1", "kind": "AllowancePolicy", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"match": map[string]any{"kind": "XDatabase", "fields": []any{"spec.size"}},
			"allow": []any{map[string]any{"kind": "Database", "relation": "Child", "mutations": []any{"spec.forProvider.size"}}},
		},
	}
}

func resources(objects ...map[string]any) *fnv1.Resources {
	out := &fnv1.Resources{}
	for _, o := range objects {
		out.Items = append(out.Items, &fnv1.Resource{Resource: ssa.ToStruct(o)})
	}
	return out
}

// unmarkedCRD of Kausality policies: nothing reports that Crossplane may read them.
var unmarkedCRD = map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": map[string]any{"name": "kausalities.kausality.io"}}

// reporting is the webhook configuration with what the policy controller reports; "" for nothing.
func reporting(reads string) *fnv1.Resources {
	return resources(map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "kausality", "annotations": map[string]any{v1alpha1.AnnotationKeyCrossplaneReads: reads}}})
}

func byName(apiVersion, kind, name string) *fnv1.ResourceSelector {
	return &fnv1.ResourceSelector{ApiVersion: apiVersion, Kind: kind, Match: &fnv1.ResourceSelector_MatchName{MatchName: name}}
}

func byLabels(kind string, labels map[string]string) *fnv1.ResourceSelector {
	return &fnv1.ResourceSelector{ApiVersion: "kausality.io/v1alpha1", Kind: kind,
		Match: &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: labels}}}
}

const crds = "apiextensions.k8s.io/v1"

// firstRequired is what reports whether Crossplane may read the policies.
func firstRequired() map[string]*fnv1.ResourceSelector {
	return map[string]*fnv1.ResourceSelector{
		policies.RequirementKausalityCRD:  byName(crds, "CustomResourceDefinition", "kausalities.kausality.io"),
		policies.RequirementConfiguration: byName("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "kausality"),
	}
}

// allRequired is what is required where it may, by the labels of selecting.
func allRequired() map[string]*fnv1.ResourceSelector {
	team := map[string]string{"team": "shop"}
	all := map[string]*fnv1.ResourceSelector{
		policies.RequirementPolicies: byLabels("AllowancePolicy", team), policies.RequirementUpgrades: byLabels("UpgradeAllowance", team),
		policies.RequirementApprovals: byLabels("ApprovalPolicy", team), policies.RequirementClusterApprovals: byLabels("ClusterApprovalPolicy", team),
		policies.RequirementRulesCRD:           byName(crds, "CustomResourceDefinition", "approvalrules.kausality.io"),
		policies.RequirementKausalities:        byLabels("Kausality", nil),
		policies.RequirementNamespace + "shop": byName("v1", "Namespace", "shop"),
	}
	maps.Copy(all, firstRequired())
	return all
}

// modern are the capabilities of a Crossplane that knows required resources.
var modern = []fnv1.Capability{fnv1.Capability_CAPABILITY_CAPABILITIES, fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES}

// requireCase is a run with what Crossplane fetched, and what the function requires.
type requireCase struct {
	reason string
	// input is selecting where empty.
	input        string
	capabilities []fnv1.Capability
	required     map[string]*fnv1.Resources
	extra        map[string]*fnv1.Resources
	want         *fnv1.Requirements
	note         string
	policies     int
}

// testRequires checks what the function requires and what the condition notes. Every run goes on with the pipeline.
func testRequires(t *testing.T, cases map[string]requireCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.input == "" {
				tc.input = selecting
			}
			s := newStage(t, tc.input)
			req := s.request(desire{"b": plain("x")})
			req.Meta.Capabilities, req.RequiredResources, req.ExtraResources = tc.capabilities, tc.required, tc.extra //nolint:staticcheck // For v1.20.
			rsp := s.run(req)
			if d := cmp.Diff(tc.want, rsp.GetRequirements(), protocmp.Transform()); d != "" {
				t.Errorf("%s: requirements: -want +got\n%s", tc.reason, d)
			}
			s.rsp = rsp
			_, reason, message := s.condition()
			if reason != v1alpha1.ConditionReasonAllowed || !strings.Contains(message, tc.note) || tc.note == "" && strings.Contains(message, "AllowancePolic") {
				t.Errorf("%s: condition %s: %s", tc.reason, reason, message)
			}
			if len(rsp.GetDesired().GetResources()) != 1 {
				t.Errorf("%s: the pipeline does not go on: %v", tc.reason, rsp.GetDesired())
			}
			cfg, err := configOf(req.GetInput())
			if err != nil {
				t.Fatal(err)
			}
			set, _ := cfg.policies.InForce(req, false, t0).Sets()
			if got := len(set.Of(schema.GroupKind{Group: "example.org", Kind: "XDatabase"})); got != tc.policies {
				t.Errorf("%s: want %d policies for the composite, got %d", tc.reason, tc.policies, got)
			}
		})
	}
}

// TestRequiresPolicies covers KR-09-08: what reports whether Crossplane may read the policies is required first, the policies only where it
// may: a forbidden fetch fails the pipeline. Without the ClusterRole the condition reports what is missing. All is required in the field
// that the calling Crossplane supports.
func TestRequiresPolicies(t *testing.T) {
	first, all, readable := firstRequired(), allRequired(), resources(readableCRD)
	testRequires(t, map[string]requireCase{
		"NoSelector": {reason: "an Input without policySelector follows the cluster where there is something to follow", input: enforce, capabilities: modern,
			want: &fnv1.Requirements{Resources: first}},
		"NoSelectorNoCRD": {reason: "and reports nothing where there is not", input: enforce, capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: {}}, want: &fnv1.Requirements{Resources: first}},
		"NoSelectorNoRole": {reason: "it reports what it cannot read", input: enforce, capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: resources(unmarkedCRD), policies.RequirementConfiguration: {}},
			want:     &fnv1.Requirements{Resources: first}, note: "the ClusterRole kausality-crossplane is missing"},
		"First": {reason: "first the two objects", capabilities: modern, want: &fnv1.Requirements{Resources: first},
			note: "gives functions no required resources"},
		"FirstOld": {reason: "a Crossplane without capabilities supports the older field", want: &fnv1.Requirements{ExtraResources: first},
			note: "gives functions no required resources"},
		"NoCRD": {reason: "a missing CRD is no failure", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: {}}, want: &fnv1.Requirements{Resources: first}, note: "is not installed"},
		"NoCRDOld": {reason: "nor with v1.20", extra: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: {}},
			want: &fnv1.Requirements{ExtraResources: first}, note: "is not installed"},
		"NoRole": {reason: "CRDs by themselves: no fetch would be allowed", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: resources(unmarkedCRD), policies.RequirementConfiguration: {}},
			want:     &fnv1.Requirements{Resources: first}, note: "the ClusterRole kausality-crossplane is missing"},
		"RoleGone": {reason: "the policy controller knows better than the CRD", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: readable, policies.RequirementConfiguration: reporting("none")},
			want:     &fnv1.Requirements{Resources: first}, note: "kausality manifests --function-only | kubectl apply -f -"},
		"RoleCame": {reason: "also where the CRDs were installed by themselves", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: resources(unmarkedCRD), policies.RequirementConfiguration: reporting("all"),
				policies.RequirementPolicies: resources(sizePolicy("a"))}, want: &fnv1.Requirements{Resources: all}, policies: 1},
		"NoReport": {reason: "without a policy controller the CRD decides", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: readable, policies.RequirementConfiguration: reporting(""),
				policies.RequirementPolicies: resources(sizePolicy("a"))}, want: &fnv1.Requirements{Resources: all}, policies: 1},
		"CRD": {reason: "then the policies", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: readable}, want: &fnv1.Requirements{Resources: all}, note: "were not fetched"},
	})
}

// TestRequiresPoliciesAgain covers KR-09-08: policies that were fetched are required on every run, and are in force where they compile.
func TestRequiresPoliciesAgain(t *testing.T) {
	first, all, readable := firstRequired(), allRequired(), resources(readableCRD)
	testRequires(t, map[string]requireCase{
		"Policies": {reason: "what is required stays so on every run", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: readable,
				policies.RequirementPolicies: resources(sizePolicy("a"), sizePolicy("b"))}, want: &fnv1.Requirements{Resources: all}, policies: 2},
		"PoliciesOld": {reason: "with v1.20 too", extra: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: readable,
			policies.RequirementPolicies: resources(sizePolicy("a"))}, want: &fnv1.Requirements{ExtraResources: all}, policies: 1},
		"NoPolicies": {reason: "there may be none", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: readable, policies.RequirementPolicies: {}},
			want:     &fnv1.Requirements{Resources: all}},
		"BadPolicy": {reason: "a policy that does not compile is named", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: readable,
				policies.RequirementPolicies: resources(map[string]any{"metadata": map[string]any{"name": "broken"}})},
			want: &fnv1.Requirements{Resources: all}, note: "AllowancePolicy broken: "},
		"OddPolicy": {reason: "and one that is no policy at all", capabilities: modern,
			required: map[string]*fnv1.Resources{policies.RequirementKausalityCRD: readable,
				policies.RequirementPolicies: resources(map[string]any{"spec": "x"})}, want: &fnv1.Requirements{Resources: all}, note: "cannot read AllowancePolicy"},
		"OtherRequire": {reason: "other steps' requirements are theirs", capabilities: modern, input: enforce,
			required: map[string]*fnv1.Resources{"other": readable}, want: &fnv1.Requirements{Resources: first}},
	})
}

// Policies of the Input that cannot be understood are its author's fault.
func TestInlinePolicies(t *testing.T) {
	cases := map[string]struct {
		reason string
		input  string
		err    string
	}{
		"Shorthand": {reason: "the short form",
			input: `{"policies":[{"name":"a","match":{"kind":"XDatabase","fields":["spec.size"]},"allow":[{"kind":"Database","relation":"Child",` +
				`"mutations":["spec.forProvider.size"]}]}]}`},
		"Long": {reason: "the long form",
			input: `{"policies":[{"name":"a","target":{"apiGroup":"example.org","kind":"XDatabase"},"rules":[{"trigger":"spec.size",` +
				`"allow":[{"relation":"External","verbs":["Update"]}]}]}]}`},
		"NoName": {reason: "messages need a name", input: `{"policies":[{"match":{"kind":"X","fields":["spec"]},"allow":[]}]}`,
			err: "policies[0].name: Required value"},
		"Twice": {reason: "and one of its own",
			input: `{"policies":[{"name":"a","match":{"kind":"X","fields":["spec"]}},{"name":"a","match":{"kind":"X","fields":["spec"]}}]}`,
			err:   "policies[1].name: Duplicate value"},
		"NoTarget": {reason: "it must be about something", input: `{"policies":[{"name":"a"}]}`,
			err: "policies[0].target: Invalid value"},
		"BadCEL": {reason: "an expression that does not compile",
			input: `{"policies":[{"name":"a","match":{"kind":"X","fields":["spec"],"cel":["object.("]},"allow":[{"relation":"External","mutations":["Update"]}]}]}`,
			err:   "policies[0].match.cel[0]: Invalid value"},
		"BadPath": {reason: "a path that is none",
			input: `{"policies":[{"name":"a","match":{"kind":"X","fields":["spec["]},"allow":[{"relation":"External","mutations":["Update"]}]}]}`,
			err:   "policies[0].match.fields[0]: Invalid value"},
		"Unknown": {reason: "an unknown field", input: `{"policies":[{"name":"a","mtch":{}}]}`,
			err: `unknown field "policies[0].mtch"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, tc.input)
			cfg, err := configOf(s.request(nil).GetInput())
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%s: want %q, got %v", tc.reason, tc.err, err)
				}
				return
			}
			if err != nil || len(cfg.policies.Policies) != 1 {
				t.Fatalf("%s: %d policies, %v", tc.reason, len(cfg.policies.Policies), err)
			}
		})
	}
}

const narrow = `{"mode":"enforce","settleGrace":"10s","policies":[{"name":"sizes",
  "target":{"apiGroup":"example.org","kind":"XDatabase"},
  "subjects":[{"kind":"User","name":"hans@example.com","mayInitiate":true}],
  "rules":[{"trigger":"spec.size","allow":[
    {"target":{"apiGroup":"cloud.example.org","kind":"Database"},"relation":"ControllerChild","verbs":["Update"],
     "mutations":[{"jsonPath":"spec.forProvider.size"}]},
    {"target":{"apiGroup":"cloud.example.org","kind":"Database"},"relation":"External","verbs":["Update"]}]}]}]}`

// With a policy an intent lets through what the policy allows, and holds what
// rides along; without a webhook as with one.
func TestPolicyNarrows(t *testing.T) {
	for _, webhook := range []bool{false, true} {
		t.Run(map[bool]string{false: "FunctionAlone", true: "WithWebhook"}[webhook], func(t *testing.T) {
			s := newStage(t, narrow)
			intend := func(size, generation int64) {
				s.now = s.now.Add(time.Minute)
				if generation > 1 {
					s.intend(size)
				}
				if webhook {
					s.annotate(v1alpha1.AnnotationKeyTrace,
						fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":%d,"user":"hans@example.com","timestamp":%q}]`,
							generation, s.now.Format(time.RFC3339)))
				}
			}
			settled := func(w desire, generation int64) {
				s.ready()
				s.now = s.now.Add(time.Minute)
				if webhook {
					s.annotate(v1alpha1.AnnotationKeyPhase, "initialized")
					s.annotate(v1alpha1.AnnotationKeySettledGeneration, fmt.Sprint(generation))
				}
				s.reconcile(w)
				s.stable(w)
			}
			intend(1, 1)
			want := desire{"a": database(1), "b": plain("x")}
			s.reconcile(want)
			s.wantWrites("create a", "create b") // it initializes
			settled(want, 1)

			// What the policy allows passes; what rides along is held.
			intend(2, 2)
			want["a"], want["b"] = database(2), plain("y")
			s.reconcile(want)
			s.wantWrites("update a", "hold b")
			if h := s.held("b"); h.Reason != "AllowanceMissing" {
				t.Errorf("held: %+v", h)
			}
			if got := s.live["a"].GetAnnotations()[v1alpha1.AnnotationKeyAllowances]; !strings.Contains(got, `"relation":"External"`) {
				t.Errorf("allowances of the managed resource: %s", got)
			}
			s.stable(want)
			s.annotate(s.suggested()[0], "once")
			s.reconcile(want)
			s.wantWrites("update b")
			settled(want, 2)

			// The same field of the same resource, along with another.
			intend(3, 3)
			want["a"] = database(3, "tier", "gold")
			s.reconcile(want)
			s.wantWrites("hold a")
			s.stable(want)
			want["a"] = database(3)
			s.reconcile(want)
			s.wantWrites("update a")
			settled(want, 3)

			// Without an intent it is drift, as ever: the allowance is consumed.
			want["a"] = database(4)
			s.reconcile(want)
			s.wantWrites("hold a")
		})
	}
}

// A policy of the cluster binds alone too; with a webhook, only what the webhook
// granted.
func TestFetchedPolicyNarrows(t *testing.T) {
	s := newStage(t, selecting)
	p := sizePolicy("sizes")
	ssa.Child(p, "spec")["subjects"] = []any{map[string]any{"kind": "User", "name": "hans@example.com", "mayInitiate": true}}
	s.required = map[string]*fnv1.Resources{policies.RequirementKausalityCRD: resources(readableCRD), policies.RequirementPolicies: resources(p)}
	want := desire{"a": database(1), "b": plain("x")}
	s.reconcile(want)
	s.settle(want)
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	want["a"], want["b"] = database(2), plain("y")
	s.reconcile(want)
	s.wantWrites("update a", "hold b")
	s.stable(want)
	s.annotate(v1alpha1.AnnotationKeyTrace, fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":3,`+
		`"user":"alice@example.com","timestamp":%q}]`, s.now.Format(time.RFC3339)))
	s.annotate(v1alpha1.AnnotationKeyPhase, "initialized")
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "2")
	want["a"] = database(3)
	s.reconcile(want)
	s.wantWrites("hold a") // alice is no subject, so the webhook granted nothing
}

// With a policy the gate opens by its allowance, here by the function itself.
func TestPolicyOpensGate(t *testing.T) {
	s := newStage(t, strings.Replace(narrow, `"settleGrace":"10s"`, `"settleGrace":"10s","gate":{"managementPolicies":"Managed"}`, 1))
	want := desire{"a": database(1)}
	s.created(want)
	s.wantPolicies("Observe")
	s.confirm(1)
	s.settle(want)
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	want["a"] = database(2)
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantPolicies("Observe", "Update")
}
