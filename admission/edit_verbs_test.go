package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Verbs of an approval that can have no effect are refused when it is written, with their
// place; where that depends on the kind, a warning names them (KR-08-51).
func TestApprovalVerbs(t *testing.T) {
	const bucket = `"apiVersion":"s3.example.org/v1","kind":"Bucket","name":"*","relation":"External"`
	for name, tc := range map[string]struct {
		reason, stored, written string
		refused, warned         string
	}{
		"Fits": {reason: "Crossplane's verbs", written: `[{` + bucket + `,"verbs":["Update","*"]}]`},
		"None": {reason: "the default", written: `[{` + bucket + `}]`},
		"OtherVerb": {reason: "of another system", written: `[{` + bucket + `},{` + bucket + `,"verbs":["Update","apply"]}]`,
			refused: `approvals[1].verbs[1]: "apply"`},
		"Unknown": {reason: "of no system", written: `[{` + bucket + `,"verbs":["update"]}]`, refused: `approvals[0].verbs[0]: "update": it is no verb`},
		"Workspace": {reason: "its own verbs",
			written: `[{"apiVersion":"tf.upbound.io/v1beta1","kind":"Workspace","name":"*","relation":"External","verbs":["apply","destroy"]}]`},
		"AnyGroup": {reason: "one group has it", written: `[{"kind":"Workspace","name":"*","relation":"External","verbs":["apply"]}]`,
			warned: "Workspaces and Terraform objects of Flux alone"},
		"AnyKind": {reason: "some children may have it", written: `[{"kind":"*","name":"*","relation":"External","verbs":["destroy"]}]`,
			warned: "Workspaces and Terraform objects of Flux alone"},
		"Digest": {reason: "the digest alone decides", written: `[{"digest":"0123456789abcdef","relation":"External","verbs":["apply"]}]`},
		"Child":  {reason: "a forgotten relation", written: `[{"kind":"Bucket","name":"*","verbs":["Update"]}]`, warned: "with relation External alone"},
		"Stored": {reason: "what is stored already stays, with what comes", stored: `[{` + bucket + `,"verbs":["apply"]}]`,
			written: `[{` + bucket + `,"verbs":["apply"]},{` + bucket + `}]`},
	} {
		t.Run(name, func(t *testing.T) {
			w, xr := newWorld(), fx.Composite()
			if tc.stored != "" {
				fx.Annotate(v1alpha1.AnnotationKeyApprovals, tc.stored)(xr)
			}
			w.add(xr)
			d := decide(t, w, enforced(), by(byCrossplane(Update, xr, fx.Annotate(v1alpha1.AnnotationKeyApprovals, tc.written)), fx.Alice, "kubectl"))
			if d.Allowed != (tc.refused == "") || !strings.Contains(d.Message, tc.refused) {
				t.Errorf("%s: allowed %t: %s", tc.reason, d.Allowed, d.Message)
			}
			if warned := strings.Join(d.Warnings, "\n"); (warned == "") != (tc.warned == "") || !strings.Contains(warned, tc.warned) {
				t.Errorf("%s: warnings %q", tc.reason, warned)
			}
		})
	}
}

// childOf a composite, of a kind, as Crossplane composes it.
func childOf(xr *unstructured.Unstructured, apiVersion, kind, spec string) *unstructured.Unstructured {
	return child(fx.Object(`{apiVersion: `+apiVersion+`, kind: `+kind+`, metadata: {name: child, uid: child-uid, generation: 1}, spec: `+spec+`}`),
		xr, fx.Crossplane, fx.Provider)
}

// What a policy allows outside travels to the children of all systems, and opens by the
// verbs of each (KR-06-11, KR-08-40, KR-08-49, KR-08-50).
func TestAllowedVerbs(t *testing.T) {
	const workspace, change = "tf.upbound.io/v1beta1", `{forProvider: {source: a}, managementPolicies: ["*"]}`
	for name, tc := range map[string]struct {
		reason, apiVersion, kind, spec, verbs string
		field                                 []string
		travels                               bool
		opens                                 string
	}{
		"Apply": {reason: "a Workspace, by its own verb", apiVersion: workspace, kind: "Workspace", spec: change, verbs: "[apply]",
			field: []string{"spec", "forProvider", "source"}, travels: true, opens: "Create,Update"},
		"Update": {reason: "by Crossplane's", apiVersion: workspace, kind: "Workspace", spec: change, verbs: "[Update]",
			field: []string{"spec", "forProvider", "source"}, travels: true, opens: "Update"},
		"Sync": {reason: "which Argo CD's is not", apiVersion: workspace, kind: "Workspace", spec: change, verbs: "[sync]",
			field: []string{"spec", "forProvider", "source"}, travels: true},
		"ApplyElsewhere": {reason: "nor Terraform's of a managed resource", apiVersion: "rds.aws.crossplane.io/v1", kind: "RDSInstance", spec: change,
			verbs: "[apply]", field: []string{"spec", "forProvider", "source"}, travels: true},
		"Application": {reason: "an Application gets what its gate reads", apiVersion: "argoproj.io/v1alpha1", kind: "Application",
			spec: "{source: {path: a}}", verbs: "[sync, delete]", field: []string{"spec", "source", "path"}, travels: true},
		"Terraform": {reason: "and so does a Terraform object of Flux", apiVersion: "infra.contrib.fluxcd.io/v1alpha2", kind: "Terraform",
			spec: "{path: a}", verbs: "[apply, destroy]", field: []string{"spec", "path"}, travels: true},
		"Inside": {reason: "what represents nothing outside does not", apiVersion: "example.org/v1", kind: "Part",
			spec: "{path: a}", verbs: "[apply]", field: []string{"spec", "path"}},
	} {
		t.Run(name, func(t *testing.T) {
			xr := fx.With(xdatabase(), fx.Set("a", "spec", "source"), func(o *unstructured.Unstructured) {
				unstructured.RemoveNestedField(o.Object, "spec", "claimRef")
			})
			object := childOf(xr, tc.apiVersion, tc.kind, tc.spec)
			p := newPlay(t, policySet(t, xrPolicy("p", `subjects: [{kind: User, name: alice, mayInitiate: true}],
  rules: [{trigger: spec.source, allow: [{relation: ControllerChild, verbs: [Update]}, {relation: External, verbs: `+tc.verbs+`}]}]`)), xr)
			p.w.kinds[schema.GroupKind{Group: "tf.upbound.io", Kind: "Workspace"}] = identity.Kind{Role: parent.RoleManaged, ManagementPolicies: true}
			p.store(object)
			p.settle("my-database-xyz")
			p.update(fx.Alice, "kubectl", "my-database-xyz", fx.Set("b", "spec", "source"))
			d := p.update(fx.Crossplane, managerMR, "child", fx.Set("b", tc.field...))
			p.want(d, outcome.ReasonExpected)
			entries, err := allowance.Parse(p.objects["child"].GetAnnotations()[v1alpha1.AnnotationKeyAllowances])
			if err != nil || (len(entries) > 0) != tc.travels {
				t.Fatalf("%s: %v, %v", tc.reason, entries, err)
			}
			gate := mask.ParseGate(p.objects["child"].GetAnnotations())
			if fx.Joined(gate.Verbs) != tc.opens || (gate.State == v1alpha1.GateOpen) != (tc.opens != "") {
				t.Errorf("%s: gate %+v", tc.reason, gate)
			}
		})
	}
}

// Section deleting allows the deletion of what an object of another system destroys, by the
// verb of that system (KR-06-12, KR-08-50).
func TestDeletingForeign(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, verbs string
		gone, ruled   bool
		mods          []fx.Mod
		allowed       bool
	}{
		"Ruled":        {reason: "not without the votes that an ApprovalRule requires", verbs: "[destroy]", mods: []fx.Mod{beingDeleted}, ruled: true},
		"Destroy":      {reason: "by its verb", verbs: "[destroy]", mods: []fx.Mod{beingDeleted}, allowed: true},
		"Delete":       {reason: "by Crossplane's", verbs: "[Delete]", mods: []fx.Mod{beingDeleted}, allowed: true},
		"Apply":        {reason: "apply destroys nothing", verbs: "[apply]", mods: []fx.Mod{beingDeleted}},
		"OfArgoCD":     {reason: "the verb of another system", verbs: "[delete]", mods: []fx.Mod{beingDeleted}},
		"ParentStays":  {reason: "its parent is not deleted", verbs: "[destroy]"},
		"ParentAbsent": {reason: "an absent parent was not seen being deleted", verbs: "[destroy]", gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			xr := fx.With(xdatabase(), tc.mods...)
			object := fx.With(childOf(xr, "infra.contrib.fluxcd.io/v1alpha2", "Terraform", "{path: a}"), fx.Set(true, "spec", "destroyResourcesOnDeletion"))
			set := policySet(t, xrPolicy("p", `deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}, {relation: External, verbs: `+tc.verbs+`}]}`))
			if tc.ruled {
				set = set.WithRulesOf(ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}}}))
			}
			p := newPlay(t, set, xr)
			if tc.gone {
				delete(p.w.live, "XDatabase/my-database-xyz")
			}
			p.store(object)
			if d := p.remove(fx.Collector, "child"); d.Allowed != tc.allowed || !tc.allowed && d.Reason != outcome.ReasonExternalDeletion {
				t.Errorf("%s: %s %s", tc.reason, d.Reason, d.Message)
			}
		})
	}
}
