package replay

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const crossplane = "system:serviceaccount:crossplane-system:crossplane"

// story is an audit log in mode log: hans changes size and class of an XDatabase
// at generation 12, Crossplane carries it out, the database settles, and then
// Crossplane changes the engine and deletes the Instance, unrequested.
func story(t *testing.T) []Change {
	t.Helper()
	hash := subject.User{Name: crossplane}.Hash()
	xr := func(generation, settled int, size string) map[string]any {
		return object(t, fmt.Sprintf(`{apiVersion: example.com/v1, kind: XDatabase, metadata: {name: db, uid: xr, generation: %d, annotations: {
  kausality.io/trace: '[{"apiVersion":"example.com/v1","kind":"XDatabase","name":"db","generation":%d,"user":"hans","timestamp":"2026-01-02T12:00:00Z"}]',
  kausality.io/settled-generation: "%d", kausality.io/phase: initialized, kausality.io/controllers: %s}},
  spec: {size: %s, resourceRefs: [{apiVersion: rds.example.com/v1, kind: Instance, name: inst}]},
  status: {conditions: [{type: Synced, status: "True"}, {type: Ready, status: "True"}]}}`, generation, generation, settled, hash, size))
	}
	mr := func(generation, cause int, class, engine string) map[string]any {
		return object(t, fmt.Sprintf(`{apiVersion: rds.example.com/v1, kind: Instance, metadata: {name: inst, uid: mr, generation: %d, annotations: {
  kausality.io/trace: '[{"apiVersion":"example.com/v1","kind":"XDatabase","name":"db","generation":%d,"user":"hans","timestamp":"2026-01-02T12:00:00Z"},
    {"apiVersion":"rds.example.com/v1","kind":"Instance","name":"inst","generation":%d,"user":"%s","timestamp":"2026-01-02T12:00:00Z"}]',
  kausality.io/updaters: %s}, ownerReferences: [{apiVersion: example.com/v1, kind: XDatabase, name: db, uid: xr, controller: true}]},
  spec: {managementPolicies: ["*"], forProvider: {class: %s, engine: %s, subnets: [a]}}}`, generation, cause, generation, crossplane, hash, class, engine))
	}
	composed := subject.ComposedManager("db", schema.GroupKind{Group: "example.com", Kind: "XDatabase"})
	by := func(user, manager, subresource string) map[string]any {
		return map[string]any{"user": map[string]any{"username": user}, "requestURI": "/x?fieldManager=" + manager,
			"objectRef": map[string]any{"name": "x", "subresource": subresource}}
	}
	webhook := by("system:serviceaccount:kausality-system:kausality-webhook", "kausality-webhook", "")
	log := line(t, "update", xr(11, 11, "small"), by(crossplane, "crossplane", "status")) +
		line(t, "update", mr(7, 11, "small", "postgres"), by("provider", "provider", "status")) +
		line(t, "patch", xr(12, 11, "large"), by("hans", "kubectl", "")) +
		line(t, "patch", mr(8, 12, "large", "postgres"), by(crossplane, composed, "")) +
		line(t, "patch", xr(12, 12, "large"), webhook) +
		line(t, "patch", mr(9, 12, "large", "mysql"), by(crossplane, composed, ""))
	deletion := by(crossplane, composed, "")
	deletion["objectRef"] = map[string]any{"name": "inst", "uid": "mr"}
	log += line(t, "delete", nil, deletion)
	changes, skipped, err := Read(strings.NewReader(log))
	if err != nil || skipped > 0 {
		t.Fatalf("skipped %d, %v", skipped, err)
	}
	return changes
}

// file with a content.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	sizes = `
apiVersion: kausality.io/v1alpha1
kind: AllowancePolicy
metadata: {name: sizes}
spec:
  target: {apiGroup: example.com, kind: XDatabase}
  subjects: [{kind: User, name: hans, mayInitiate: true}]
  rules:
  - trigger: spec.size
    allow:
    - {relation: ControllerChild, target: {apiGroup: rds.example.com, kind: Instance}, verbs: [Update],
       mutations: [{jsonPath: spec.forProvider.class, verbs: [Mutate]}]}
`
	nothing = `{apiVersion: kausality.io/v1alpha1, kind: AllowancePolicy, metadata: {name: none}, spec: {target: {apiGroup: example.com, kind: XDatabase}}}`
	always  = `{apiVersion: kausality.io/v1alpha1, kind: ClusterApprovalPolicy, metadata: {name: c}, spec: {rules: [{kind: Instance, mode: always}]}}`
)

// TestTest replays the story against policies (KR-10-10). The allowances are
// those that the policies grant along the way, not recorded ones.
func TestTest(t *testing.T) {
	type refusal struct {
		Line   int
		Reason outcome.Reason
	}
	deletion := refusal{Line: 7, Reason: outcome.ReasonExternalDeletion}
	drift := []refusal{{Line: 6, Reason: outcome.ReasonDrift}, deletion}
	cases := map[string]struct {
		reason   string
		policies string
		want     []refusal
		decided  int
		covered  int
	}{
		"None":    {reason: "without policies any consequence of the intent is expected", want: drift, decided: 4, covered: 1},
		"Allowed": {reason: "the consequence is covered", policies: sizes, want: drift, decided: 4, covered: 1},
		"Nothing": {
			reason: "the policy allows no consequence", policies: nothing, decided: 4,
			want: append([]refusal{{Line: 4, Reason: outcome.ReasonAllowanceMissing}}, drift...),
		},
		"Excepted": {
			reason: "the drift is approved by a policy, the deletion is not", policies: sizes + "---\n" + always, decided: 4, covered: 2,
			want: []refusal{deletion},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := ReadPolicies(file(t, tc.policies))
			if err != nil {
				t.Fatal(err)
			}
			changes := story(t)
			r, err := Test(t.Context(), changes, set)
			if err != nil {
				t.Fatal(err)
			}
			var got []refusal
			for _, f := range r.Refusals {
				got = append(got, refusal{Line: f.Line, Reason: f.Reason})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || r.Decided != tc.decided || r.Covered != tc.covered {
				t.Errorf("%s: decided %d, covered %d; -want, +got:\n%s", tc.reason, r.Decided, r.Covered, diff)
			}
			for i, c := range story(t) {
				if diff := cmp.Diff(c.New, changes[i].New); diff != "" {
					t.Errorf("line %d was modified:\n%s", c.Line, diff)
				}
			}
			again, err := Test(t.Context(), changes, set)
			if diff := cmp.Diff(r, again); err != nil || diff != "" {
				t.Errorf("again: %v, %s", err, diff)
			}
		})
	}
}

// TestWarnings: what of the policies can have no effect is printed, as far as no cluster is needed to know that (KR-06-26).
func TestWarnings(t *testing.T) {
	_, warnings, err := readPolicies(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), []string{file(t, sizes+"---\n"+always+`
---
{apiVersion: kausality.io/v1alpha1, kind: ClusterApprovalPolicy, metadata: {name: late}, spec: {rules: [{kind: A, mode: always},
  {kind: A, name: b, mode: once}, {kind: B, mode: always, expiry: "2026-06-01T00:00:00Z"}]}}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ClusterApprovalPolicy late: spec.rules[1]: rules[0] approves first whatever this rule matches",
		"ClusterApprovalPolicy late: spec.rules[2].expiry: it is over"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
}

// TestPrint has a line for each warning and refusal, and the counts.
func TestPrint(t *testing.T) {
	var out bytes.Buffer
	r := &Result{Decided: 3, Covered: 1, Refusals: []Refusal{{Line: 6, Message: "Drift: x"}}, Warnings: []string{"line 2: y"}}
	r.Print(&out, "audit.log", 4, time.Time{})
	want := "warning: line 2: y\naudit.log:6: Drift: x\n3 changes decided, 1 expected or allowed by policies, 1 refused; 4 writes without an object in the log\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestLearner derives a policy from the story, by which the story's consequence
// is covered and its drift is not: what comes after settling is not learned.
func TestLearner(t *testing.T) {
	l := NewLearner()
	l.Changes(story(t))
	var out bytes.Buffer
	if err := WritePolicies(&out, l.Policies()); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"name: xdatabase.example.com\n": true, "trigger: spec.size\n": true, "spec.forProvider.class\n": true,
		"mayInitiate: true\n    name: hans\n": true, "engine": false, "Delete": false} {
		if strings.Contains(out.String(), text) != want {
			t.Errorf("%q: want %t in:\n%s", text, want, out.String())
		}
	}
	set, err := ReadPolicies(file(t, out.String()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Test(t.Context(), story(t), set)
	if err != nil || len(r.Refusals) != 2 || r.Covered != 1 || len(r.Closed) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	set, err = ReadPolicies(file(t, sizes))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Test(t.Context(), story(t), set); err != nil || len(r.Closed) != 1 || r.Closed[0].Line != 4 {
		t.Errorf("without the entry for the external resource (KR-06-33): %+v, %v", r, err)
	}
	if got := NewLearner().Policies(); len(got) > 0 {
		t.Errorf("nothing was recorded, and %v derived", got)
	}
}

// recordedObject of a log, with the trace of an intent of hans on the XDatabase at a generation.
func recordedObject(t *testing.T, text string, generation int) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	hops := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"XDatabase","name":"db","generation":%d,"user":"hans"}`, generation)
	if o.GetKind() != "XDatabase" {
		hops += fmt.Sprintf(`,{"apiVersion":%q,"kind":%q,"name":%q,"generation":1,"user":"crossplane"}`, o.GetAPIVersion(), o.GetKind(), o.GetName())
	}
	a := o.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	a["kausality.io/trace"] = "[" + hops + "]"
	o.SetAnnotations(a)
	return o
}

// TestLearnerExternal: what was created, changed and deleted outside of the cluster becomes entries of relation External, and what went with
// its parent the section deleting (KR-06-32).
func TestLearnerExternal(t *testing.T) {
	const owner = `ownerReferences: [{apiVersion: example.com/v1, kind: XDatabase, name: db, uid: u, controller: true}]`
	xr := func(size string, settled, generation int) *unstructured.Unstructured {
		return recordedObject(t, fmt.Sprintf(`{apiVersion: example.com/v1, kind: XDatabase, metadata: {name: db, uid: u, generation: %d,
  annotations: {kausality.io/settled-generation: "%d"}}, spec: {size: %s, crossplane: {}}}`, generation, settled, size), generation)
	}
	mr := func(name, class, more string) *unstructured.Unstructured {
		return recordedObject(t, `{apiVersion: rds.example.com/v1, kind: Instance, metadata: {name: `+name+`, `+owner+more+`},
  spec: {managementPolicies: ["*"], forProvider: {class: `+class+`}}}`, 2)
	}
	change := func(op admission.Operation, user string, before, after *unstructured.Unstructured) Change {
		o := after
		if o == nil {
			o = before
		}
		c := Change{New: after}
		c.Operation, c.Kind, c.OldObject, c.Object, c.User.Name = op, o.GroupVersionKind(), before, after, user
		return c
	}
	config := recordedObject(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, `+owner+`}, data: {a: b}}`, 2)
	orphaned := mr("kept", "large", ", annotations: {kausality.io/deletion: orphan}")
	l := NewLearner()
	l.Changes([]Change{
		change(admission.Create, "crossplane", nil, mr("early", "small", "")), // its cause is not recorded
		change(admission.Update, "hans", xr("small", 1, 1), xr("large", 1, 2)),
		change(admission.Create, "crossplane", nil, mr("second", "large", "")),
		change(admission.Create, "crossplane", nil, config),
		change(admission.Update, "crossplane", mr("first", "small", ""), mr("first", "large", "")),
		change(admission.Delete, "crossplane", mr("third", "large", ""), nil),
		change(admission.Delete, "hans", xr("large", 2, 2), nil),
		change(admission.Delete, "crossplane", orphaned, nil),
		change(admission.Delete, "crossplane", config, nil),
	})
	policies := l.Policies()
	if len(policies) != 1 || len(policies[0].Spec.Rules) != 1 {
		t.Fatalf("%+v", policies)
	}
	instance, configMap := target(schema.FromAPIVersionAndKind("rds.example.com/v1", "Instance")), target(schema.FromAPIVersionAndKind("v1", "ConfigMap"))
	class := []v1alpha1.AllowedMutation{{JSONPath: "spec.forProvider.class", Verbs: []v1alpha1.FieldVerb{"Mutate"}}}
	want := []v1alpha1.AllowedChange{
		{Target: configMap, Relation: v1alpha1.RelationControllerChild, Verbs: []string{"Create"}},
		{Target: instance, Relation: v1alpha1.RelationControllerChild, Verbs: []string{"Create", "Delete", "Update"}, Mutations: class},
		{Target: instance, Relation: v1alpha1.RelationExternal, Verbs: []string{"Create", "Delete", "Update"}},
	}
	if diff := cmp.Diff(want, policies[0].Spec.Rules[0].Allow); diff != "" {
		t.Error(diff)
	}
	deleting := []v1alpha1.AllowedChange{{Relation: v1alpha1.RelationControllerChild, Verbs: []string{"*"}}}
	if diff := cmp.Diff(deleting, policies[0].Spec.Deleting.Allow); diff != "" {
		t.Errorf("what is left behind is no deletion: %s", diff)
	}
	l.Changes([]Change{change(admission.Delete, "gc", mr("first", "large", ""), nil)})
	deleting = append(deleting, v1alpha1.AllowedChange{Target: instance, Relation: v1alpha1.RelationExternal, Verbs: []string{"Delete"}})
	if diff := cmp.Diff(deleting, l.Policies()[0].Spec.Deleting.Allow); diff != "" {
		t.Error(diff)
	}
}

// TestDrifts of log mode, and DriftReports, become rules with the whole spec as
// trigger: neither contains the field that caused a change.
func TestDrifts(t *testing.T) {
	list, err := ReadDrifts(file(t, `
apiVersion: v1
kind: List
items:
- apiVersion: kausality.io/v1alpha1
  kind: Drift
  metadata: {name: a}
  spec:
    {id: a, relation: ControllerChild, operation: UPDATE, parent: {apiVersion: apps/v1, kind: Deployment, name: d},
     child: {apiVersion: apps/v1, kind: ReplicaSet, name: r}, difference: [{path: "spec.containers[1].image", verb: Mutate}]}
- apiVersion: kausality.io/v1alpha1
  kind: Drift
  metadata: {name: b}
  spec:
    {id: b, relation: External, operation: DELETE, parent: {apiVersion: apps/v1, kind: Deployment, name: d}, child: {apiVersion: v1, kind: Pod, name: r}}
---
apiVersion: kausality.io/v1alpha1
kind: DriftReport
spec:
  {id: c, relation: ControllerChild, parent: {apiVersion: apps/v1, kind: Deployment, name: d}, child: {apiVersion: apps/v1, kind: ReplicaSet, name: r},
   request: {operation: CREATE}}
---
`))
	if err != nil || len(list) != 3 {
		t.Fatalf("%d, %v", len(list), err)
	}
	l := NewLearner()
	for _, d := range list {
		l.Drift(d)
	}
	p := l.Policies()
	if len(p) != 1 || len(p[0].Spec.Rules) != 1 || p[0].Spec.Rules[0].Trigger != "spec" || len(p[0].Spec.Rules[0].Allow) != 1 {
		t.Fatalf("%+v", p)
	}
	a := p[0].Spec.Rules[0].Allow[0]
	diff := cmp.Diff([]string{"Create", "Update"}, a.Verbs)
	if diff != "" || a.Target.Kind != "ReplicaSet" || a.Mutations[0].JSONPath != "spec.containers[*].image" {
		t.Errorf("%+v %s", a, diff)
	}
}

// TestFiles: what cannot be read is an error with the name of the file.
func TestFiles(t *testing.T) {
	policies := func(f string) error { _, err := ReadPolicies(f); return err }
	drifts := func(f string) error { _, err := ReadDrifts(f); return err }
	events := func(f string) error { _, _, err := ReadFile(f); return err }
	for name, tc := range map[string]struct {
		read    func(string) error
		content string
		want    string
	}{
		"Broken":   {read: policies, content: "{", want: "input.yaml: cannot read"},
		"NoPolicy": {read: policies, content: "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}", want: "ConfigMap c is no policy"},
		"NoCompile": {read: policies, content: strings.Replace(sizes, "spec.size", `"spec["`, 1),
			want: "AllowancePolicy sizes does not compile: spec.rules[0].trigger"},
		"NoDrift":    {read: drifts, content: nothing, want: "AllowancePolicy none is no Drift or DriftReport"},
		"WrongDrift": {read: drifts, content: "{apiVersion: kausality.io/v1alpha1, kind: Drift, metadata: {name: d}, spec: {id: 1}}", want: "cannot read Drift d"},
		"Events":     {read: events, content: "{", want: "cannot read line 1"},
	} {
		if err := tc.read(file(t, tc.content)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want %q, got %v", name, tc.want, err)
		}
		if err := tc.read("/nowhere"); err == nil || !os.IsNotExist(err) {
			t.Errorf("%s: want that there is no file, got %v", name, err)
		}
	}
	if set, err := ReadPolicies(file(t, "---\n---\n")); err != nil || set == nil {
		t.Errorf("empty documents: %v, %v", set, err)
	}
}
