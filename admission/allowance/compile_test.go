package allowance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func policyOf(t *testing.T, text string) *v1alpha1.AllowancePolicy {
	t.Helper()
	p := &v1alpha1.AllowancePolicy{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCompileErrors(t *testing.T) {
	for _, tc := range []struct {
		reason, text string
		want         []string
	}{
		{reason: "neither form", text: `{metadata: {name: p}, spec: {}}`,
			want: []string{"spec.target: it is missing: name the kind that the policy is about"}},
		{reason: "both forms", text: `{metadata: {name: p}, spec: {target: {kind: A}, match: {kind: A, fields: [spec]}}}`,
			want: []string{"spec.match: give either target (with rules) or match (with allow), not both"}},
		{reason: "a path and an expression with their positions", text: `
metadata: {name: p}
spec:
  target: {apiGroup: apps, apiVersion: v1, kind: Deployment}
  rules:
  - trigger: spec.replicas
    allow: [{relation: ControllerChild, verbs: [Update], mutations: [{jsonPath: "spec..replicas"}]}]
  - trigger: spec.template
    conditions: ["true", "object.spec. > 1"]
    allow: []
  - trigger: metadata.labels
    allow: []`,
			want: []string{
				`spec.rules[0].allow[0].mutations[0].jsonPath: path "spec..replicas": unexpected '.' at position 5`,
				`spec.rules[1].conditions[1]: expression "object.spec. > 1": line 1, column 14: Syntax error: no viable alternative at input '. >'`,
				`spec.rules[2].trigger: path "metadata.labels" is no desired state: only a change outside of apiVersion, kind, metadata and status is a cause`,
			}},
		{reason: "what the CRD refuses is refused without it, too", text: `
metadata: {name: p}
spec:
  target: {kind: ConfigMap}
  deleting: {allow: [{relation: External, verbs: [Destroy]}, {relation: External, verbs: [Delete], mutations: [{jsonPath: spec}]}]}
  initializing: {when: "1", allow: [{relation: ControllerChild, verbs: [apply], externalTarget: {a: b}}, {relation: Child, verbs: [Create]}]}`,
			want: []string{
				`spec.initializing.when: expression "1": line 1, column 1: it must be true or false, and is int`,
				`spec.initializing.allow[0].externalTarget: externalTarget goes with relation External only`,
				`spec.initializing.allow[0].verbs[0]: "apply" must be one of Create, Update, Delete, *`,
				`spec.initializing.allow[1].relation: "Child" must be ControllerChild or External`,
				`spec.deleting.allow[0].verbs[0]: "Destroy" must be one of Create, Update, Delete, apply, destroy, sync, delete, *`,
				`spec.deleting.allow[1].mutations: mutations go with relation ControllerChild only`,
			}},
		{reason: "the shorthand", text: `
metadata: {name: p}
spec:
  match: {kind: Deployment, fields: ["spec[", spec.replicas], cel: ["nope"], capture: ["metadata.annotations['jira]"]}
  allow: [{kind: ReplicaSet, relation: Child, mutations: ["spec.", create]}, {relation: External, mutations: [Patch]}]`,
			want: []string{
				`spec.match.fields[0]: path "spec[": unterminated '[' at position 4`,
				`spec.match.cel[0]: expression "nope": line 1, column 1: undeclared reference to 'nope' (in container '')`,
				`spec.match.capture[0]: path "metadata.annotations['jira]": a quote that is not closed at position 21`,
				`spec.allow[0].mutations[0]: path "spec.": unexpected '.' at position 4`,
				`spec.allow[1].mutations[0]: "Patch" must be one of Create, Update, Delete, apply, destroy, sync, delete, *`,
			}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			p := policyOf(t, tc.text)
			before := p.DeepCopy()
			compiled, errs := Compile(p)
			var got []string
			for _, e := range errs {
				got = append(got, e.Error())
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
			if compiled == nil {
				t.Error("no compiled policy")
			}
			if d := cmp.Diff(before, p); d != "" {
				t.Errorf("the policy was modified: %s", d)
			}
		})
	}
}

func TestBadRulesLeaveTheOthersInForce(t *testing.T) {
	p := policyOf(t, `
metadata: {name: p}
spec:
  target: {kind: ConfigMap}
  rules:
  - {trigger: "data[", allow: []}
  - {trigger: data, allow: []}`)
	c, errs := Compile(p)
	if len(errs) != 1 || errs[0].Rule != "rules[0]" || len(c.rules) != 1 {
		t.Errorf("errors %v, %d rules in force", errs, len(c.rules))
	}
}

// TestSetIndexesByKind covers KR-06-01.
func TestSetIndexesByKind(t *testing.T) {
	names := func(in []*Compiled) string {
		var out []string
		for _, p := range in {
			out = append(out, p.Name)
		}
		return strings.Join(out, " ")
	}
	var all []*Compiled
	for _, text := range []string{
		`{metadata: {name: c}, spec: {target: {apiGroup: apps, kind: Deployment}}}`,
		`{metadata: {name: b}, spec: {match: {kind: Deployment, fields: [spec]}, allow: [{kind: ReplicaSet, relation: Child, mutations: [spec]}]}}`,
		`{metadata: {name: a}, spec: {target: {apiGroup: other.example.org, kind: Deployment}}}`,
		`{metadata: {name: d}, spec: {match: {kind: Deployment, apiGroup: apps, fields: [spec]}, allow: [{kind: ReplicaSet, relation: Child, mutations: [spec]}]}}`,
		`{metadata: {name: e}, spec: {}}`,
	} {
		c, _ := Compile(policyOf(t, text))
		all = append(all, c)
	}
	s := NewSet(all, nil, nil)
	for gk, want := range map[schema.GroupKind]string{
		{Group: "apps", Kind: "Deployment"}:              "b c d",
		{Group: "other.example.org", Kind: "Deployment"}: "a b",
		{Group: "none.example.org", Kind: "Deployment"}:  "b",
		{Group: "apps", Kind: "ReplicaSet"}:              "",
	} {
		if got := names(s.Of(gk)); got != want {
			t.Errorf("%v: %q, want %q", gk, got, want)
		}
	}
	if (*Set)(nil).Of(schema.GroupKind{Kind: "A"}) != nil || (*Set)(nil).Upgrading("a") != nil {
		t.Error("the empty Set has policies")
	}
}

func TestCompileApproval(t *testing.T) {
	p := &v1alpha1.ApprovalPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "controller"}}
	if err := yaml.Unmarshal([]byte(`
rules:
- {mode: always, match: {regexp: "a|("}}
- {mode: sometimes, prereqs: {cel: "object."}}
- {mode: always, match: {}}
- {kind: ConfigMap, mode: once}`), &p.Spec); err != nil {
		t.Fatal(err)
	}
	e, errs := CompileApproval(p)
	var got []string
	for _, err := range errs {
		got = append(got, err.Rule+" "+err.Error())
	}
	want := []string{
		"rules[0] spec.rules[0].match.regexp: error parsing regexp: missing closing ): `a|(`",
		`rules[1] spec.rules[1].mode: "sometimes" must be once, generation or always`,
		"rules[1] spec.rules[1].prereqs.cel: expression \"object.\": line 1, column 8: Syntax error: no viable alternative at input '.'",
		"rules[2] spec.rules[2].match: give cel or regexp",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(e.rules) != 1 || !e.speaksFor("system:serviceaccount:infra:controller", nil) || e.speaksFor("system:serviceaccount:infra:other", nil) {
		t.Errorf("rules %d", len(e.rules))
	}
}
