package allowance

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// kindsOfTest are an XDatabase without an observed generation, an open Database, a managed Bucket, and a few built-in kinds.
type kindsOfTest map[string]Kind

func (k kindsOfTest) Find(kind, group string, anyGroup bool) ([]Kind, bool) {
	if kind == "Undiscovered" {
		return nil, false
	}
	found, ok := k[kind]
	if !ok || !anyGroup && found.Group != group {
		return nil, true
	}
	return []Kind{found}, true
}

func (k kindsOfTest) Names(group string, anyGroup bool) (out []string) {
	for name, kind := range k {
		if anyGroup || kind.Group == group {
			out = append(out, name)
		}
	}
	return out
}

func testKinds(t *testing.T) kindsOfTest {
	t.Helper()
	out := kindsOfTest{}
	add := func(gk string, external, clusterScoped bool, text string) {
		root := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &root); err != nil {
			t.Fatal(err)
		}
		k := Kind{GroupKind: schema.ParseGroupKind(gk), External: external, ClusterScoped: clusterScoped}
		k.Schemas = map[string]*change.Schema{"v1": change.SchemaOf(root)}
		out[k.Kind] = k
	}
	add("XDatabase.example.org", true, true, `{type: object, properties: {
  spec: {type: object, properties: {size: {type: string}, engine: {type: string}}},
  status: {type: object, properties: {conditions: {type: array, items: {type: object}}}}}}`)
	add("Database.example.org", true, false, `{type: object, x-kubernetes-preserve-unknown-fields: true}`)
	add("Bucket.example.org", true, true, `{type: object, properties: {spec: {type: object, properties: {
  forProvider: {type: object, properties: {size: {type: string}}}}}, status: {type: object, properties: {observedGeneration: {type: integer}}}}}`)
	for _, builtin := range []string{"Deployment.apps", "ReplicaSet.apps"} {
		add(builtin, false, false, `{type: object, properties: {spec: {type: object, properties: {replicas: {type: integer}, template: {type: object,
  x-kubernetes-preserve-unknown-fields: true}}}, status: {type: object, properties: {observedGeneration: {type: integer}}}}}`)
	}
	add("ConfigMap", false, false, `{type: object, properties: {data: {type: object, additionalProperties: {type: string}}}}`)
	return out
}

func lines(errs []RuleError) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Rule+" "+e.Error())
	}
	return out
}

// What of an AllowancePolicy can never have an effect (KR-06-26 to KR-06-31).
func TestUnbound(t *testing.T) {
	const subjects = `subjects: [{kind: User, name: hans, mayInitiate: true}]`
	x := func(rest string) string {
		return `{target: {apiGroup: example.org, kind: XDatabase}, ` + subjects + rest + `}`
	}
	rule := func(rest string) string { return x(`, rules: [{trigger: spec.size, allow: [], ` + rest + `}]`) }
	allow := func(entry string) string { return x(`, rules: [{trigger: spec.size, allow: [` + entry + `]}]`) }
	when := func(text string) string { return x(`, initializing: {when: "` + text + `", allow: []}`) }
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"Right": {spec: allow(`{relation: ControllerChild, target: {apiGroup: example.org, kind: Bucket}, verbs: [Update],
  mutations: [{jsonPath: spec.forProvider.size}]}, {relation: External, verbs: [Update]}`)},
		"WhenNeverEnds": {spec: when("!has(object.status.observedGeneration)"), want: []string{
			"initializing spec.initializing.when: it never ends: XDatabase.example.org has no field status.observedGeneration; " +
				"leave `when` out to end it once the object has settled or was Ready"}},
		"WhenTrue": {spec: when("true"), want: []string{"initializing spec.initializing.when: it never ends; " +
			"leave `when` out to end it once the object has settled or was Ready"}},
		"WhenNeverBegins": {spec: when("has(object.status.ready)"), want: []string{
			"initializing spec.initializing.when: it never begins: XDatabase.example.org has no field status.ready; " +
				"leave `when` out to end it once the object has settled or was Ready"}},
		"WhenEnds": {spec: when("!has(object.status.conditions)")},
		"WhenOfAKindThatReportsIt": {spec: `{target: {apiGroup: apps, kind: Deployment}, initializing: {when: "!has(object.status.observedGeneration)",
  allow: []}}`},
		"WhenOfAnOpenKind": {spec: `{target: {apiGroup: example.org, kind: Database}, initializing: {when: "!has(object.status.observedGeneration)",
  allow: []}}`},
		"Trigger": {spec: x(`, rules: [{trigger: spec.sise, allow: []}, {trigger: spec.size, allow: []}]`), want: []string{
			"rules[0] spec.rules[0].trigger: XDatabase.example.org has no field spec.sise"}},
		"Condition": {spec: rule(`conditions: ["true", "has(object.spec.jira)"]`), want: []string{
			"rules[0] spec.rules[0].conditions[1]: it is never true: XDatabase.example.org has no field spec.jira"}},
		"ConditionByMetadata": {spec: rule(`conditions: ["object.metadata.labels['env'] != 'prod' || has(object.spec.jira)"]`)},
		"Capture": {spec: rule(`capture: ["metadata.annotations[jira]", spec.ticket]`), want: []string{
			"rules[0] spec.rules[0].capture[1]: XDatabase.example.org has no field spec.ticket"}},
		"Mutation": {spec: allow(`{relation: ControllerChild, target: {apiGroup: example.org, kind: Bucket}, verbs: [Update],
  mutations: [{jsonPath: spec.size}]}`), want: []string{
			"rules[0] spec.rules[0].allow[0].mutations[0].jsonPath: Bucket.example.org has no field spec.size"}},
		"MutationOfMetadata": {spec: allow(`{relation: ControllerChild, verbs: [Update], mutations: [{jsonPath: metadata.name}]}`), want: []string{
			`rules[0] spec.rules[0].allow[0].mutations[0].jsonPath: "metadata.name" is no desired state: no change of it needs a permission`}},
		"MutationWithoutUpdate": {spec: allow(`{relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: spec.size}]}`), want: []string{
			"rules[0] spec.rules[0].allow[0].mutations: fields are changed by verb Update, which is not one of verbs"}},
		"MutationInitializing": {spec: x(`, initializing: {allow: [{relation: ControllerChild, verbs: [Create], mutations: [{jsonPath: "*"}]}]}`)},
		"Template": {spec: `{target: {apiGroup: apps, kind: Deployment}, ` + subjects + `, rules: [{trigger: spec.template, allow: [
  {relation: ControllerChild, target: {apiGroup: apps, kind: ReplicaSet}, verbs: [Update], mutations: [{jsonPath: spec.template}]}]}]}`, want: []string{
			"rules[0] spec.rules[0].allow[0].mutations[0].jsonPath: it is never changed: the controller makes another ReplicaSet for another template, " +
				"which is verb Create"}},
		"TemplateCreated": {spec: `{target: {apiGroup: apps, kind: Deployment}, ` + subjects + `, rules: [{trigger: spec.template, allow: [
  {relation: ControllerChild, target: {apiGroup: apps, kind: ReplicaSet}, verbs: [Create, Update], mutations: [{jsonPath: spec.template}]}]}]}`},
		"ExternalOfADeployment": {spec: `{target: {apiGroup: apps, kind: Deployment}, ` + subjects + `, rules: [{trigger: spec.replicas, allow: [
  {relation: External, verbs: [Update]}]}]}`, want: []string{
			"rules[0] spec.rules[0].allow[0]: it has no effect: no child of a Deployment represents an external resource"}},
		"ExternalOfAConfigMap": {spec: allow(`{relation: External, target: {kind: ConfigMap}, verbs: [Update]}`), want: []string{
			"rules[0] spec.rules[0].allow[0]: it has no effect: objects of ConfigMap stand for no external resources"}},
		"ExternalOfABucket": {spec: allow(`{relation: External, target: {apiGroup: example.org, kind: Bucket}, verbs: [Update]}`)},
		"UnknownKind": {spec: `{target: {apiGroup: example.com, kind: XDatabase}, ` + subjects + `, rules: [{trigger: spec.x, allow: [
  {relation: ControllerChild, target: {kind: Nope}, verbs: [Create]}]}]}`, want: []string{
			" spec.target: the cluster has no kind XDatabase.example.com; did you mean XDatabase.example.org?",
			"rules[0] spec.rules[0].allow[0].target: the cluster has no kind Nope"}},
		"Undiscovered": {spec: `{target: {kind: Undiscovered}, ` + subjects + `, rules: [{trigger: spec.x, allow: []}]}`},
		"NoSubjects": {spec: `{target: {apiGroup: example.org, kind: XDatabase}, rules: [{trigger: spec.size, allow: []}]}`, want: []string{
			" spec.subjects: there are none, so that the rules grant nothing"}},
		"NoSubjectsNoRules": {spec: `{target: {apiGroup: example.org, kind: XDatabase}}`},
		"Subjects": {spec: `{target: {apiGroup: example.org, kind: XDatabase}, subjects: [{kind: ServiceAccount, name: "a:b", namespace: ns},
  {kind: ServiceAccount, name: a, namespace: a.b}, {kind: User, name: "system:serviceaccount:a"}, {kind: User, name: "system:serviceaccount:a:b"},
  {kind: Group, name: "system:serviceaccounts:A"}, {kind: Group, name: "team:A"}]}`, want: []string{
			` spec.subjects[0].name: no ServiceAccount can have the name "a:b"`, ` spec.subjects[1].namespace: no Namespace can have the name "a.b"`,
			` spec.subjects[2].name: no ServiceAccount can have the user name "system:serviceaccount:a"; it is system:serviceaccount:NAMESPACE:NAME`,
			` spec.subjects[4].name: there can be no group "system:serviceaccounts:A": "A" is no name of a Namespace`}},
		"Shorthand": {spec: `{match: {kind: XDatabase, fields: [spec.size, spec.nope], cel: ["has(object.spec.jira)"], capture: [spec.ticket]}, ` + subjects + `,
  allow: [{kind: Bucket, relation: Child, mutations: [create, delete, spec.size]}, {kind: ConfigMap, relation: External, mutations: [Update]}]}`,
			want: []string{
				"match spec.match.fields[1]: XDatabase has no field spec.nope", "match spec.match.cel[0]: it is never true: XDatabase has no field spec.jira",
				"match spec.match.capture[0]: XDatabase has no field spec.ticket", "match spec.allow[0].mutations[2]: Bucket has no field spec.size",
				"match spec.allow[1]: it has no effect: objects of ConfigMap stand for no external resources"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.AllowancePolicy{}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &p.Spec); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, lines(Unbound(p, testKinds(t)))); d != "" {
				t.Error(d)
			}
			for _, line := range lines(Unbound(p, nil)) {
				if strings.Contains(line, "has no field") || strings.Contains(line, "has no kind") {
					t.Errorf("without a cluster: %s", line)
				}
			}
		})
	}
}

// Of ApprovalPolicies: kinds, expressions, Namespaces, expired and shadowed rules (KR-06-28 to KR-06-30).
func TestUnboundApproval(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		namespace, spec string
		want            []string
	}{
		"Right":       {spec: `{rules: [{apiVersion: v1, kind: ConfigMap, match: {cel: "object.data.a == 'b'", regexp: '{"data":.*}'}, mode: always}]}`},
		"UnknownKind": {spec: `{rules: [{kind: Nope, mode: always}]}`, want: []string{"rules[0] spec.rules[0].kind: the cluster has no kind Nope"}},
		"OtherGroup": {spec: `{rules: [{apiVersion: apps/v1, kind: ConfigMap, mode: always}]}`,
			want: []string{"rules[0] spec.rules[0].kind: the cluster has no kind ConfigMap.apps; did you mean ConfigMap?"}},
		"AnyKind": {spec: `{rules: [{kind: "No*", mode: always, match: {cel: "has(object.spec.x)"}}]}`},
		"Expressions": {spec: `{rules: [{kind: ConfigMap, prereqs: {cel: "has(object.spec.x)"}, match: {cel: "object.dada.a == 'b'", regexp: '"data":.*'},
  mode: always}]}`,
			want: []string{"rules[0] spec.rules[0].prereqs.cel: it is never true: ConfigMap has no field spec",
				"rules[0] spec.rules[0].match.cel: it is never true: ConfigMap has no field dada",
				"rules[0] spec.rules[0].match.regexp: it matches nothing: it must match the whole JSON of the desired state, which begins with {"}},
		"ClusterScoped": {spec: `{rules: [{kind: Bucket, namespace: team, mode: always}]}`, want: []string{
			"rules[0] spec.rules[0].namespace: objects of Bucket are in no Namespace"}},
		"Expired": {spec: `{rules: [{kind: ConfigMap, mode: always, expiry: "2026-06-01T00:00:00Z"}, {kind: ConfigMap, mode: once,
  expiry: "2027-06-01T00:00:00Z"}]}`,
			want: []string{"rules[0] spec.rules[0].expiry: it is over"}},
		"Shadowed": {spec: `{rules: [{kind: "C*", mode: always}, {kind: ConfigMap, name: a, mode: once}, {kind: Bucket, mode: once}]}`,
			want: []string{"rules[1] spec.rules[1]: rules[0] approves first whatever this rule matches"}},
		"ShadowedByTheSame": {spec: `{rules: [{kind: ConfigMap, mode: once}, {kind: ConfigMap, mode: once}]}`,
			want: []string{"rules[1] spec.rules[1]: rules[0] approves first whatever this rule matches"}},
		"NotShadowed": {spec: `{rules: [{kind: ConfigMap, name: "a*", mode: always}, {kind: ConfigMap, name: "b*", mode: always},
  {kind: ConfigMap, mode: once}, {kind: ConfigMap, name: c, mode: always}, {kind: Bucket, match: {cel: "has(object.spec)"}, mode: always},
  {kind: Bucket, mode: always}]}`},
		"NotShadowedForEver": {spec: `{rules: [{kind: ConfigMap, mode: always, expiry: "2027-06-01T00:00:00Z"}, {kind: ConfigMap, mode: always}]}`},
		"NotShadowedByExpired": {spec: `{rules: [{kind: ConfigMap, mode: always, expiry: "2026-06-01T00:00:00Z"}, {kind: ConfigMap, mode: always,
  expiry: "2026-05-01T00:00:00Z"}]}`,
			want: []string{"rules[0] spec.rules[0].expiry: it is over", "rules[1] spec.rules[1].expiry: it is over"}},
		"Namespace": {namespace: "infra", spec: `{subjects: [{kind: User, name: hans}], rules: [{namespace: "team-*", mode: always}, {namespace: "in*",
  mode: always}, {mode: always}]}`,
			want: []string{`rules[0] spec.rules[0].namespace: "team-*" leaves Namespace infra out, and elsewhere ` +
				"a policy of that Namespace approves changes of its own ServiceAccounts alone"}},
		"NamespaceOfItsAccount": {namespace: "infra", spec: `{subjects: [{kind: ServiceAccount, name: a, namespace: infra}], rules: [{namespace: "team-*",
  mode: always}]}`},
		"NamespaceByItsName": {namespace: "infra", spec: `{rules: [{namespace: "team-*", mode: always}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.ApprovalPolicySpec{}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), spec); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, lines(UnboundApproval(tc.namespace, spec, testKinds(t), now))); d != "" {
				t.Error(d)
			}
		})
	}
}

// Of UpgradeAllowances and ApprovalRules (KR-06-28, KR-06-29).
func TestUnboundOthers(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	u := &v1alpha1.UpgradeAllowance{}
	if err := yaml.UnmarshalStrict([]byte(`{serviceAccount: crossplane-system/crossplane, validUntil: "2024-01-06T18:00:00Z",
  allow: [{kind: RDSInstance, relation: Child, mutations: [spec.forProvider]}, {relation: External, mutations: [Update]}]}`), &u.Spec); err != nil {
		t.Fatal(err)
	}
	want := []string{`allow spec.serviceAccount: "crossplane-system/crossplane" is the user name of no ServiceAccount; write ` +
		"system:serviceaccount:crossplane-system:crossplane", "allow spec.validUntil: it is over",
		"allow spec.allow[0].kind: the cluster has no kind RDSInstance"}
	if d := cmp.Diff(want, lines(UnboundUpgrade(u, testKinds(t), now))); d != "" {
		t.Error(d)
	}
	r := &v1alpha1.ApprovalRule{}
	if err := yaml.UnmarshalStrict([]byte(`{match: {resources: [{group: example.org, kinds: [XDatabase, Nope]}, {group: "*", kinds: [Bucket]}],
  paths: [spec.size, spec.forProvider.size, spec.nope]}, require: [{count: 1, subjects: [{kind: Group, name: dba}]},
  {count: 1, subjects: [{kind: ServiceAccount, name: A, namespace: a}]}], breakGlass: {subjects: [{kind: User, name: "system:serviceaccount:"}]}}`),
		&r.Spec); err != nil {
		t.Fatal(err)
	}
	want = []string{"spec spec.match.resources[0].kinds[1]: the cluster has no kind Nope.example.org",
		`spec spec.require[1].subjects[0].name: no ServiceAccount can have the name "A"`,
		`spec spec.breakGlass.subjects[0].name: no ServiceAccount can have the user name "system:serviceaccount:"; it is system:serviceaccount:NAMESPACE:NAME`}
	if d := cmp.Diff(want, lines(UnboundRule(r, testKinds(t)))); d != "" {
		t.Error(d)
	}
}

// TestNoKind: a kind that the cluster does not have is reported with the one that was probably meant (KR-06-28, KR-12-24).
func TestNoKind(t *testing.T) {
	for kind, want := range map[string]string{
		"Databse.example.org":  "; did you mean Database?",
		"Database.example.com": "; did you mean Database.example.org?",
		"Nope.example.org":     "",
	} {
		gk := schema.ParseGroupKind(kind)
		r := &v1alpha1.ApprovalRule{Spec: v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{
			Resources: []v1alpha1.ApprovalRuleResource{{Group: gk.Group, Kinds: []string{gk.Kind}}}}}}
		want = "spec.match.resources[0].kinds[0]: the cluster has no kind " + kind + want
		if errs := UnboundRule(r, testKinds(t)); len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("%s: %v, want %s", kind, errs, want)
		}
	}
}
