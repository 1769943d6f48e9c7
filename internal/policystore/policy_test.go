package policystore

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func policyOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestCompileStatuses covers KR-05-53.
func TestCompileStatuses(t *testing.T) {
	for _, tc := range []struct {
		reason, text string
		want         []v1alpha1.RuleStatus
	}{
		{
			reason: "each rule its own errors",
			text: `
kind: AllowancePolicy
metadata: {name: p}
spec:
  target: {kind: A}
  initializing: {allow: []}
  deleting: {allow: [{relation: External, verbs: [nope]}]}
  rules: [{trigger: spec.a, allow: []}, {trigger: "spec[", allow: []}]`,
			want: []v1alpha1.RuleStatus{
				{Path: "initializing", Compiled: true},
				{Path: "deleting", Errors: []string{`spec.deleting.allow[0].verbs[0]: "nope" must be one of Create, Update, Delete, apply, destroy, sync, delete, *`}},
				{Path: "rules[0]", Compiled: true},
				{Path: "rules[1]", Errors: []string{`spec.rules[1].trigger: path "spec[": unterminated '[' at position 4`}},
			},
		},
		{
			reason: "the shorthand",
			text:   `{kind: AllowancePolicy, metadata: {name: p}, spec: {match: {kind: A, fields: [spec]}, allow: [{kind: B, relation: Child, mutations: [create]}]}}`,
			want:   []v1alpha1.RuleStatus{{Path: "match", Compiled: true}},
		},
		{
			reason: "an upgrade as a whole",
			text:   `{kind: UpgradeAllowance, metadata: {name: p}, spec: {serviceAccount: "", allow: []}}`,
			want:   []v1alpha1.RuleStatus{{Path: "allow", Errors: []string{"spec.serviceAccount: it is missing"}}},
		},
		{
			reason: "approvals",
			text:   `{kind: ClusterApprovalPolicy, metadata: {name: p}, spec: {rules: [{mode: always}, {mode: always, match: {cel: "1"}}]}}`,
			want: []v1alpha1.RuleStatus{
				{Path: "rules[0]", Compiled: true},
				{Path: "rules[1]", Errors: []string{`spec.rules[1].match.cel: expression "1": line 1, column 1: it must be true or false, and is int`}},
			},
		},
	} {
		c, err := Compile(policyOf(t, tc.text))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tc.want, c.Rules); d != "" {
			t.Errorf("%s: %s", tc.reason, d)
		}
	}
	if _, err := Compile(policyOf(t, `{kind: ConfigMap, metadata: {name: c}}`)); err == nil || err.Error() != "ConfigMap c is no policy" {
		t.Errorf("error %v", err)
	}
}

// TestUnreadableRule covers KR-14-04: what an ApprovalRule is about stays held though the rule cannot be read, and its status shows why.
func TestUnreadableRule(t *testing.T) {
	for _, tc := range []struct {
		reason, text string
		kind         string
		held         bool
	}{
		{reason: "about what it matches", kind: "A", held: true,
			text: `{kind: ApprovalRule, metadata: {name: r}, spec: {match: {resources: [{group: "*", kinds: [A]}]}, expiresAfter: 14days, require: [{count: 1}]}}`},
		{reason: "and nothing else", kind: "B",
			text: `{kind: ApprovalRule, metadata: {name: r}, spec: {match: {resources: [{group: "*", kinds: [A]}]}, expiresAfter: 14days, require: [{count: 1}]}}`},
		{reason: "about everything where that cannot be read", kind: "B", held: true,
			text: `{kind: ApprovalRule, metadata: {name: r}, spec: {match: 7, require: [{count: 1}]}}`},
	} {
		c, err := Compile(policyOf(t, tc.text))
		if err != nil {
			t.Fatalf("%s: %v", tc.reason, err)
		}
		if len(c.Rules) != 1 || c.Rules[0].Compiled || len(c.Rules[0].Errors) != 1 || !strings.Contains(c.Rules[0].Errors[0], "cannot read ApprovalRule r") {
			t.Errorf("%s: status %+v", tc.reason, c.Rules)
		}
		rules := NewSet(slices.Values([]*Compiled{c})).Matching(&allowance.Change{Kind: schema.GroupKind{Group: "example.org", Kind: tc.kind},
			Relation: v1alpha1.RelationControllerChild, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}})
		lacks, _ := rules.Lacks([]v1alpha1.Vote{{User: "anna", At: metav1.Now()}}, allowance.Authors{}, time.Now())
		if held := lacks != ""; held != tc.held {
			t.Errorf("%s: held %t: %s", tc.reason, held, lacks)
		}
	}
}

// TestValidator covers KR-05-54.
func TestValidator(t *testing.T) {
	ask := func(operation admissionv1.Operation, text string) ctrl.Response {
		raw, err := policyOf(t, text).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		r := ctrl.Request{}
		r.Operation, r.Object = operation, runtime.RawExtension{Raw: raw}
		return Validator{}.Handle(t.Context(), r)
	}
	bad := `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {kind: A}, rules: [{trigger: spec.a, conditions: ["nope"], allow: []}]}}`
	resp := ask(admissionv1.Create, bad)
	if resp.Allowed || resp.Result.Code != 422 || resp.Result.Reason != metav1.StatusReasonInvalid || len(resp.Result.Details.Causes) != 1 ||
		resp.Result.Details.Causes[0].Field != "spec.rules[0].conditions[0]" ||
		!strings.Contains(resp.Result.Message, "line 1, column 1: undeclared reference to 'nope'") {
		t.Errorf("%+v", resp.Result)
	}
	if !ask(admissionv1.Delete, bad).Allowed {
		t.Error("what does not compile cannot be deleted")
	}
	if !ask(admissionv1.Update, `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {kind: A}}}`).Allowed {
		t.Error("what compiles is refused")
	}
}

// Verbs that can have no effect are refused when they are written, with their place; those
// of a stored policy, and those whose effect depends on the kind, are warnings (KR-08-51).
func TestValidatorVerbs(t *testing.T) {
	ask := func(text, stored string) ctrl.Response {
		r := ctrl.Request{}
		r.Operation = admissionv1.Create
		for into, from := range map[*runtime.RawExtension]string{&r.Object: text, &r.OldObject: stored} {
			if from == "" {
				continue
			}
			raw, err := policyOf(t, from).MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			into.Raw = raw
		}
		return Validator{}.Handle(t.Context(), r)
	}
	long := func(target, verbs string) string {
		return `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {kind: A}, subjects: [{kind: User, name: a}], rules: [{trigger: spec.a, allow: [
  {relation: ControllerChild, verbs: [Update]}, {relation: External, ` + target + `verbs: ` + verbs + `}]}]}}`
	}
	bucket, workspace := `target: {apiGroup: example.org, kind: Bucket}, `, `target: {apiGroup: tf.upbound.io, kind: Workspace}, `
	for name, tc := range map[string]struct{ policy, stored, refused, warned string }{
		"Fits":      {policy: long(bucket, `["Update", "*"]`)},
		"Workspace": {policy: long(workspace, "[apply, destroy, Delete]")},
		"Refused":   {policy: long(bucket, "[Update, apply]"), refused: "spec.rules[0].allow[1].verbs[1]"},
		"Sync":      {policy: long(workspace, "[sync]"), refused: "spec.rules[0].allow[1].verbs[0]"},
		"Warned":    {policy: long("", "[apply]"), warned: "spec.rules[0].allow[1].verbs[0]"},
		"Stored":    {policy: long(bucket, "[Update, apply]"), stored: long(bucket, "[apply]"), warned: "spec.rules[0].allow[1].verbs[1]"},
		"Deleting": {policy: `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {kind: A},
  deleting: {allow: [{relation: External, ` + bucket + `verbs: [delete]}]}}}`, refused: "spec.deleting.allow[0].verbs[0]"},
		"Initializing": {policy: `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {kind: A},
  initializing: {allow: [{relation: External, ` + bucket + `verbs: [sync]}]}}}`, refused: "spec.initializing.allow[0].verbs[0]"},
		"Shorthand": {policy: `{kind: AllowancePolicy, metadata: {name: p}, spec: {match: {kind: A, fields: [spec]},
  allow: [{relation: External, kind: Bucket, mutations: [Update, apply]}]}}`, refused: "spec.allow[0].mutations[1]"},
		"ShorthandWarned": {policy: `{kind: AllowancePolicy, metadata: {name: p}, spec: {match: {kind: A, fields: [spec]},
  allow: [{relation: External, kind: Workspace, mutations: [apply]}]}}`, warned: "spec.allow[0].mutations[0]"},
		"Upgrade": {policy: `{kind: UpgradeAllowance, metadata: {name: u}, spec: {serviceAccount: "system:serviceaccount:a:b",
  allow: [{relation: External, apiGroup: example.org, kind: Bucket, mutations: [apply]}]}}`, refused: "spec.allow[0].mutations[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := ask(tc.policy, tc.stored)
			if resp.Allowed != (tc.refused == "") {
				t.Fatalf("allowed %t: %+v", resp.Allowed, resp.Result)
			}
			if !resp.Allowed && (resp.Result.Code != 422 || len(resp.Result.Details.Causes) != 1 || resp.Result.Details.Causes[0].Field != tc.refused) {
				t.Errorf("%+v", resp.Result)
			}
			if warned := strings.Join(resp.Warnings, "\n"); (warned == "") != (tc.warned == "") || !strings.Contains(warned, tc.warned) {
				t.Errorf("warnings %q", warned)
			}
		})
	}
}

func TestClaimsRoundTrip(t *testing.T) {
	o := policyOf(t, `{kind: ClusterApprovalPolicy, metadata: {name: p}, spec: {rules: []}}`)
	claims := []v1alpha1.PolicyClaim{
		{Rule: "r", ID: "1", Parent: v1alpha1.ObjectReference{Kind: "X", Name: "x", UID: "u"}, Generation: 3,
			At:    metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
			Child: &v1alpha1.ClaimChild{Kind: "Y", Name: "y", Version: "g4"}, Digest: "d", User: "h"},
		{Rule: "q", ID: "2", At: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))},
	}
	if err := setClaims(o, claims); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(o.Object) // as the API server keeps it
	if err != nil {
		t.Fatal(err)
	}
	back := &unstructured.Unstructured{}
	if err := back.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	got, err := claimsOf(back)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].At = metav1.NewTime(got[i].At.UTC())
	}
	if d := cmp.Diff(claims, got); d != "" {
		t.Error(d)
	}
}

func TestOutdated(t *testing.T) {
	it := &Compiled{Rules: []v1alpha1.RuleStatus{{Path: "rules[0]", Compiled: true}}}
	for _, tc := range []struct {
		reason, status string
		want           bool
	}{
		{reason: "never written", status: `{}`, want: true},
		{
			reason: "of an older spec",
			status: `{observedGeneration: 1, rules: [{path: "rules[0]", compiled: true}], conditions: [{type: Compiled, status: "True"}]}`,
			want:   true,
		},
		{
			reason: "of this one",
			status: `{observedGeneration: 2, rules: [{path: "rules[0]", compiled: true}], conditions: [{type: Compiled, status: "True"}]}`,
		},
	} {
		o := policyOf(t, `{kind: AllowancePolicy, metadata: {name: p, generation: 2}, status: `+tc.status+`}`)
		if got := outdated(o, it); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}
