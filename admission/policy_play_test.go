package admission

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// play is a cluster of a few objects that requests are made to: what is admitted
// is stored as the API server would.
type play struct {
	t       *testing.T
	w       *memoryWorld
	e       *Evaluator
	objects map[string]*unstructured.Unstructured
	now     time.Time
}

// policySet of YAML documents of any of the four kinds, which must compile.
func policySet(t testing.TB, texts ...string) *allowance.Set {
	t.Helper()
	var policies []*allowance.Compiled
	var upgrades []*allowance.Upgrade
	var exceptions []*allowance.Exception
	var rules []*allowance.Rule
	for _, text := range texts {
		var kind struct{ Kind string }
		read(t, text, &kind)
		var errs []allowance.RuleError
		switch kind.Kind {
		case "AllowancePolicy":
			p := &v1alpha1.AllowancePolicy{}
			read(t, text, p)
			c, e := allowance.Compile(p)
			policies, errs = append(policies, c), e
		case "UpgradeAllowance":
			p := &v1alpha1.UpgradeAllowance{}
			read(t, text, p)
			c, e := allowance.CompileUpgrade(p)
			upgrades, errs = append(upgrades, c), e
		case "ApprovalPolicy":
			p := &v1alpha1.ApprovalPolicy{}
			read(t, text, p)
			c, e := allowance.CompileApproval(p)
			exceptions, errs = append(exceptions, c), e
		case "ClusterApprovalPolicy":
			p := &v1alpha1.ClusterApprovalPolicy{}
			read(t, text, p)
			c, e := allowance.CompileClusterApproval(p)
			exceptions, errs = append(exceptions, c), e
		case v1alpha1.KindApprovalRule:
			p := &v1alpha1.ApprovalRule{}
			read(t, text, p)
			c, e := allowance.CompileRule(p)
			rules, errs = append(rules, c), e
		default:
			t.Fatalf("kind %q", kind.Kind)
		}
		if len(errs) > 0 {
			t.Fatalf("cannot compile: %v", errs)
		}
	}
	return allowance.NewSet(policies, upgrades, exceptions).WithRules(rules)
}

func read(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func newPlay(t *testing.T, set *allowance.Set, objects ...*unstructured.Unstructured) *play {
	w := newWorld()
	w.kinds[schema.GroupKind{Group: "example.com", Kind: "DatabaseClaim"}] = identity.Kind{Resource: "databaseclaims.example.com", Role: "Claim"}
	w.kinds[schema.GroupKind{Group: "example.com", Kind: "XDatabase"}] = identity.Kind{Resource: "xdatabases.example.com", Role: "Composite"}
	w.kinds[schema.GroupKind{Group: "rds.aws.crossplane.io",
		Kind: "RDSInstance"}] = identity.Kind{Resource: "rdsinstances.rds.aws.crossplane.io", Role: "Managed", ManagementPolicies: true}
	p := &play{t: t, w: w, e: &Evaluator{World: w, Options: enforced(), Policies: set}, objects: map[string]*unstructured.Unstructured{}, now: fx.Noon}
	for _, o := range objects {
		p.store(o)
	}
	return p
}

func (p *play) store(o *unstructured.Unstructured) {
	p.objects[o.GetName()] = o
	p.w.add(o)
}

// update an object as a user; what is admitted is stored.
func (p *play) update(u subject.User, manager, name string, mods ...fx.Mod) Decision {
	p.t.Helper()
	old := p.objects[name]
	return p.admit(&Request{Operation: Update, OldObject: old, Object: fx.With(old, mods...), User: u, FieldManager: manager})
}

func (p *play) create(u subject.User, manager string, o *unstructured.Unstructured) Decision {
	p.t.Helper()
	return p.admit(&Request{Operation: Create, Object: o, User: u, FieldManager: manager})
}

func (p *play) remove(u subject.User, name string) Decision {
	p.t.Helper()
	return p.admit(&Request{Operation: Delete, OldObject: p.objects[name], User: u})
}

// admit a request; asserts that it is left as it was, and that our own edits,
// sent through once more, change nothing.
func (p *play) admit(req *Request) Decision {
	p.t.Helper()
	p.now = p.now.Add(time.Second)
	req.Time = p.now
	req.Kind, req.Namespace, req.Name = req.Current().GroupVersionKind(), req.Current().GetNamespace(), req.Current().GetName()
	before := copyRequest(req)
	d, err := p.e.Evaluate(p.t.Context(), req)
	if err != nil {
		p.t.Fatal(err)
	}
	if diff := cmp.Diff(before, req); diff != "" {
		p.t.Errorf("the request was modified: %s", diff)
	}
	statusApart(p.t, p.e, req, d)
	if !d.Allowed || req.Object == nil {
		return d
	}
	o := apply(req.Object, d)
	if d.PolicyClaim == nil {
		stable(p.t, p.e, req, d)
	}
	generation := int64(1)
	if req.OldObject != nil {
		if generation = req.OldObject.GetGeneration(); len(d.Changes) > 0 || d.ManagementPolicies != nil {
			generation++
		}
	}
	o.SetGeneration(generation)
	p.store(o)
	return d
}

// settle objects at their generation.
func (p *play) settle(names ...string) {
	for _, n := range names {
		o := p.objects[n]
		p.store(fx.With(o, fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, strconv.FormatInt(o.GetGeneration(), 10),
			v1alpha1.AnnotationKeyPhase, "initialized")))
	}
}

// holds asserts the allowances of an object, as YAML.
func (p *play) holds(name, want string) {
	p.t.Helper()
	var a, b any
	read(p.t, want, &a)
	read(p.t, p.objects[name].GetAnnotations()[v1alpha1.AnnotationKeyAllowances], &b)
	if d := cmp.Diff(a, b); d != "" {
		p.t.Errorf("allowances of %s: %s", name, d)
	}
}

func (p *play) want(d Decision, reason outcome.Reason) {
	p.t.Helper()
	if d.Reason != reason {
		p.t.Errorf("%s (%s), want %s: %s %v", d.Reason, d.Class, reason, d.Message, d.Warnings)
	}
}
