package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/subject"
)

const (
	crossplaneUser = "system:serviceaccount:crossplane-system:crossplane"
	writer         = "system:serviceaccount:kausality-system:kausality-webhook"
)

// auditLog as an API server writes it while Kausality runs in mode log: hans makes
// a database larger, Crossplane carries it out, the database settles, and later
// Crossplane changes its engine on its own.
func auditLog(t *testing.T) string {
	t.Helper()
	composed := subject.ComposedManager("db", schema.GroupKind{Group: "example.com", Kind: "XDatabase"})
	crossplane := subject.User{Name: crossplaneUser}.Hash()
	xr := func(generation, settled int, size string) string {
		return fmt.Sprintf(`{apiVersion: example.com/v1, kind: XDatabase, metadata: {name: db, uid: xr, generation: %d, annotations: {
  kausality.io/trace: '[{"apiVersion":"example.com/v1","kind":"XDatabase","name":"db","generation":%d,"user":"hans","timestamp":"2026-01-02T12:00:00Z"}]',
  kausality.io/settled-generation: "%d", kausality.io/phase: initialized, kausality.io/controllers: %s}},
  spec: {size: %s, resourceRefs: [{apiVersion: rds.example.com/v1, kind: Instance, name: inst}]},
  status: {conditions: [{type: Synced, status: "True"}, {type: Ready, status: "True"}]}}`,
			generation, generation, settled, crossplane, size)
	}
	mr := func(generation, cause int, class, engine string) string {
		return fmt.Sprintf(`{apiVersion: rds.example.com/v1, kind: Instance, metadata: {name: inst, uid: mr, generation: %d, annotations: {
  kausality.io/trace: '[{"apiVersion":"example.com/v1","kind":"XDatabase","name":"db","generation":%d,"user":"hans","timestamp":"2026-01-02T12:00:00Z"},
    {"apiVersion":"rds.example.com/v1","kind":"Instance","name":"inst","generation":%d,"user":"%s","timestamp":"2026-01-02T12:00:00Z"}]',
  kausality.io/updaters: %s}, ownerReferences: [{apiVersion: example.com/v1, kind: XDatabase, name: db, uid: xr, controller: true}]},
  spec: {managementPolicies: ["*"], forProvider: {class: %s, engine: %s}}}`, generation, cause, generation, crossplaneUser, crossplane, class, engine)
	}
	var out bytes.Buffer
	for i, e := range []struct{ verb, user, manager, subresource, object string }{
		{verb: "update", user: writer, manager: "kausality-webhook", subresource: "status", object: xr(11, 11, "small")},
		{
			verb:        "update",
			user:        "system:serviceaccount:crossplane-system:provider",
			manager:     "provider",
			subresource: "status",
			object:      mr(7, 11, "small", "postgres"),
		},
		{verb: "patch", user: "hans", manager: "kubectl", object: xr(12, 11, "large")},
		{verb: "patch", user: crossplaneUser, manager: composed, object: mr(8, 12, "large", "postgres")},
		{verb: "patch", user: writer, manager: "kausality-webhook", object: xr(12, 12, "large")},
		{verb: "patch", user: crossplaneUser, manager: composed, object: mr(9, 12, "large", "mysql")},
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(e.object), &object); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(map[string]any{
			"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "stage": "ResponseComplete", "verb": e.verb,
			"requestURI": "/apis/x?fieldManager=" + e.manager, "user": map[string]any{"username": e.user},
			"objectRef":                map[string]any{"name": "x", "subresource": e.subresource},
			"responseStatus":           map[string]any{"code": 200},
			"responseObject":           object,
			"requestReceivedTimestamp": fmt.Sprintf("2026-01-02T12:0%d:00.000000Z", i),
		})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(raw, '\n'))
	}
	out.WriteString(`{"stage":"ResponseComplete","verb":"get","objectRef":{},"responseStatus":{"code":200}}` + "\n")
	return file(t, "audit.log", out.String())
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func kausality(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

const derived = `---
apiVersion: kausality.io/v1alpha1
kind: AllowancePolicy
metadata:
  name: xdatabase.example.com
spec:
  rules:
  - allow:
    - mutations:
      - jsonPath: spec.forProvider.class
        verbs:
        - Mutate
      relation: ControllerChild
      target:
        apiGroup: rds.example.com
        apiVersion: v1
        kind: Instance
      verbs:
      - Update
    - relation: External
      target:
        apiGroup: rds.example.com
        apiVersion: v1
        kind: Instance
      verbs:
      - Update
    trigger: spec.size
  subjects:
  - kind: User
    mayInitiate: true
    name: hans
  target:
    apiGroup: example.com
    apiVersion: v1
    kind: XDatabase
`

// externalEntry is the part of derived that opens the gate.
const externalEntry = `    - relation: External
      target:
        apiGroup: rds.example.com
        apiVersion: v1
        kind: Instance
      verbs:
      - Update
`

// TestPolicyDerive covers KR-10-10: changes of managed resources open their gates (KR-06-32).
func TestPolicyDerive(t *testing.T) {
	out, err := kausality(t, "policy", "derive", "--events="+auditLog(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(derived, out); d != "" {
		t.Error(d)
	}
}

func TestPolicyDeriveFromDrifts(t *testing.T) {
	drifts := file(t, "drifts.yaml", `
apiVersion: v1
kind: List
items:
- apiVersion: kausality.io/v1alpha1
  kind: Drift
  metadata: {name: a}
  spec:
    id: a
    relation: ControllerChild
    operation: UPDATE
    parent: &parent {apiVersion: apps/v1, kind: Deployment, name: d}
    child: &child {apiVersion: apps/v1, kind: ReplicaSet, name: r}
    difference: [{path: "spec.template.spec.containers[1].image", verb: Mutate}]
- {apiVersion: kausality.io/v1alpha1, kind: Drift, metadata: {name: b}, spec: {id: b, relation: External, parent: *parent, child: *child}}
---
{"apiVersion":"kausality.io/v1alpha1","kind":"DriftReport","spec":{"id":"c","relation":"ControllerChild",
  "parent":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"child":{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r"},
  "request":{"operation":"DELETE"}}}
`)
	out, err := kausality(t, "policy", "derive", "--drifts="+drifts)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"trigger: spec\n", `jsonPath: spec.template.spec.containers[*].image`, "verbs:\n      - Delete\n      - Update\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestPolicyTest: with the derived policies only unrequested changes are refused;
// without a rule for it, hans's change is refused as well (KR-10-10).
func TestPolicyTest(t *testing.T) {
	events := auditLog(t)
	for _, tc := range []struct{ reason, policies, want, err string }{
		{
			reason:   "derived",
			policies: derived,
			want:     `:6: Drift: changing spec.forProvider.engine of Instance inst by ` + crossplaneUser + ` is not allowed: it is an unrequested change`,
			err:      "1 recorded changes would have been refused",
		},
		{
			reason:   "nothing is allowed",
			policies: `{apiVersion: kausality.io/v1alpha1, kind: AllowancePolicy, metadata: {name: none}, spec: {target: {apiGroup: example.com, kind: XDatabase}}}`,
			want: `:4: AllowanceMissing: changing spec.forProvider.class of Instance inst by ` + crossplaneUser +
				` is not allowed: no allowance on XDatabase db covers spec.forProvider.class (AllowancePolicy none)`,
			err: "2 recorded changes would have been refused",
		},
		{
			reason: "and drift excepted",
			policies: derived + `---
{apiVersion: kausality.io/v1alpha1, kind: ClusterApprovalPolicy, metadata: {name: c}, spec: {rules: [{kind: Instance, mode: always}]}}`,
			want: "3 changes decided, 2 expected or allowed by policies, 0 refused; 0 writes without an object in the log",
			err:  "1 recorded changes would not have reached their external resources",
		},
		{
			reason:   "without the entry for the external resource (KR-06-33)",
			policies: strings.Replace(derived, externalEntry, "", 1),
			want: ":4: the gate of Instance inst stays closed: no allowance with relation External covers the change (spec.forProvider.class); " +
				"add to the rule that allows it: relation External, verbs [Update]",
			err: "1 recorded changes would have been refused",
		},
		{
			reason: "it does not compile",
			policies: `{apiVersion: kausality.io/v1alpha1, kind: AllowancePolicy, metadata: {name: bad}, spec: {target: {kind: A}, rules: ` +
				`[{trigger: "spec[", allow: []}]}}`,
			err: `AllowancePolicy bad does not compile: spec.rules[0].trigger: path "spec[": unterminated '[' at position 4`,
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			out, err := kausality(t, "policy", "test", file(t, "policies.yaml", tc.policies), "--events="+events)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if !strings.Contains(out, tc.want) {
				t.Errorf("no %q in\n%s", tc.want, out)
			}
		})
	}
}

func TestPolicyUsage(t *testing.T) {
	for _, args := range [][]string{{"policy"}, {"policy", "test"}, {"policy", "test", "a.yaml"}, {"policy", "derive"}, {"policy", "derive", "a"}} {
		if _, err := kausality(t, args...); !errors.As(err, &usageError{}) {
			t.Errorf("%v: %v is no usage error", args, err)
		}
	}
}

// TestKroDerive: the policies of the graphs of a file are printed, and nothing where one of them is invalid.
func TestKroDerive(t *testing.T) {
	const graph = "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: shop}\nspec:\n" +
		"  schema: {apiVersion: v1, kind: Shop, spec: {size: string}}\n  resources:\n" +
		"  - {id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: \"${schema.spec.size}\"}}}\n"
	good, bad := file(t, "good.yaml", graph), file(t, "bad.yaml", strings.Replace(graph, "schema.spec", "b.spec", 1))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "kro.md"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := kausality(t, "kro", "derive", "-f", good)
	if shown := "```yaml\n" + strings.TrimPrefix(out, "---\n") + "```\n"; err != nil || !strings.Contains(string(page), shown) {
		t.Errorf("docs/kro.md does not show %s%v", shown, err)
	}
	out, err = kausality(t, "kro", "derive", "-f", good, "--service-account=kro/kro")
	for _, want := range []string{"  name: shop-policy\n", "    namespace: kro\n    name: kro\n",
		"  # resources[0].template.data.size: ${schema.spec.size}\n  - trigger: spec.size\n"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s%v", want, out, err)
		}
	}
	if _, err := kausality(t, "policy", "test", file(t, "policy.yaml", out), "--events="+auditLog(t)); err == nil || strings.Contains(err.Error(), "compile") {
		t.Errorf("what is printed is a policy: %v", err)
	}
	for _, tc := range []struct {
		args []string
		err  string
	}{
		{[]string{"-f", good, "-f", bad}, `bad.yaml: ResourceGraphDefinition shop: spec.resources[0].template.data.size: the graph has no resource "b"`},
		{[]string{"-f", good, "--service-account=kro"}, `--service-account "kro" must be NAMESPACE/NAME`},
		{[]string{"-f", filepath.Join(t.TempDir(), "none")}, "no such file"},
		{nil, "name the files with graphs with -f"},
	} {
		out, err := kausality(t, append([]string{"kro", "derive"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(out, "AllowancePolicy") {
			t.Errorf("%v: want %q, got %v and\n%s", tc.args, tc.err, err, out)
		}
	}
}
