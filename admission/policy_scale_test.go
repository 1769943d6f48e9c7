package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// scale an object by a field of its spec through the subresource.
func (p *play) scale(name, field string, n int64) Decision {
	p.t.Helper()
	old := p.objects[name]
	req := &Request{Operation: Update, Subresource: SubresourceScale, Kind: old.GroupVersionKind(), Namespace: old.GetNamespace(), Name: name,
		OldObject: old, Object: fx.With(old, fx.Set(n, "spec", field)), User: hans, Time: p.now}
	d, err := p.e.Evaluate(p.t.Context(), req)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// A change through /scale is granted what the same change otherwise is. Its
// request takes no annotations; they are left to be written.
func TestScaleIsGranted(t *testing.T) {
	policy := `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {apiGroup: example.com, kind: DatabaseClaim},
  subjects: [{kind: User, name: hans@example.com, mayInitiate: true}],
  rules: [{trigger: spec.nodes, conditions: ["has(object.metadata.annotations['jira'])"], capture: ["metadata.annotations[jira]"],
    allow: [{relation: ControllerChild, verbs: [Update]}]}]}}`
	p := newPlay(t, policySet(t, policy), fx.With(claim(), fx.Set(int64(1), "spec", "nodes")))
	d := p.scale("my-database", "nodes", 3)
	p.want(d, outcome.ReasonNoParent)
	if len(d.Annotations) > 0 {
		t.Errorf("annotations %v, want none in the request itself", d.Annotations)
	}
	value := d.Later[v1alpha1.AnnotationKeyAllowances]
	if value == nil || !strings.Contains(*value, `"field":"spec.nodes"`) || !strings.Contains(*value, `"generation":5`) || !strings.Contains(*value, "DB-1") {
		t.Errorf("allowances later: %v", value)
	}
	if d.Later[v1alpha1.AnnotationKeyTrace] == nil || d.Trace.Own().Generation != 5 {
		t.Errorf("trace later: %v", d.Trace)
	}
	if d := p.scale("my-database", "other", 3); d.Later[v1alpha1.AnnotationKeyAllowances] != nil {
		t.Errorf("allowances of a field that triggers nothing: %s", *d.Later[v1alpha1.AnnotationKeyAllowances])
	}
}

// What is scaled is a child like another: frozen with its parent, for one.
func TestScaleOfAChild(t *testing.T) {
	xr := fx.With(xdatabase(), func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "claimRef") })
	p := newPlay(t, policySet(t), fx.With(xr, fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")), rdsInstance(xr))
	d := p.scale("my-database-xyz-rds", "nodes", 3)
	p.want(d, outcome.ReasonFrozen)
	if d.Later != nil {
		t.Errorf("a refusal leaves %v to be written", d.Later)
	}
}

// External is about what may be done outside: it lets a managed resource be created
// and deleted, and no other child.
func TestExternalIsAboutManagedResources(t *testing.T) {
	initializing := xrPolicy("p", `initializing: {allow: [{relation: External, verbs: ["*"]}]}`)
	deleting := xrPolicy("p", `deleting: {allow: [{relation: External, verbs: ["*"]}]}`)
	xr := fx.With(xdatabase(), initializingXR)
	part := child(fx.Object("{apiVersion: example.com/v1, kind: Part, metadata: {name: part, uid: part-uid, generation: 1}, spec: {a: 1}}"),
		xr, fx.Crossplane, fx.Crossplane)
	p := newPlay(t, policySet(t, initializing), claim(), xr)
	bare := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		return fx.With(o, func(o *unstructured.Unstructured) { o.SetAnnotations(nil); o.SetUID(""); o.SetGeneration(0) })
	}
	p.want(p.create(fx.Crossplane, managerMR, bare(part)), outcome.ReasonAllowanceMissing)
	p.want(p.create(fx.Crossplane, managerMR, fx.With(bare(rdsInstance(xr)), fx.Policies("*"))), outcome.ReasonInitializing)

	gone := fx.With(xdatabase(), beingDeleted)
	p = newPlay(t, policySet(t, deleting), claim(), gone, part)
	p.want(p.remove(fx.Crossplane, "part"), outcome.ReasonAllowanceMissing)

	entries := `[{"relation":"External","verbs":["*"],"generation":12}]`
	busy := fx.With(xdatabase(), newIntent, fx.Annotate(v1alpha1.AnnotationKeyAllowances, entries))
	p = newPlay(t, policySet(t, xrPolicy("p", "rules: []")), claim(), busy, part)
	p.want(p.remove(fx.Crossplane, "part"), outcome.ReasonAllowanceMissing)
}
