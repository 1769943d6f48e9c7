package fn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
)

// Names of what the function requires of Crossplane.
const (
	requirementCRD      = "kausality.io/allowancepolicy-crd"
	requirementPolicies = "kausality.io/allowancepolicies"

	policyCRD  = "allowancepolicies." + v1alpha1.Group
	policyKind = "AllowancePolicy"
)

// everybody is the group that all authenticated users are in.
const everybody = "system:authenticated"

// policy in force.
type policy struct {
	*allowance.Compiled
	// granting is the policy with everybody for its subjects: the function knows
	// hardly ever who made an intent, and never that person's groups.
	granting *allowance.Compiled
	// fetched from the cluster, so that a webhook knows it too.
	fetched bool
}

func compiled(p *v1alpha1.AllowancePolicy, fetched bool) (policy, []allowance.RuleError) {
	out, faults := allowance.Compile(p)
	open := p.DeepCopy()
	if len(open.Spec.Subjects) > 0 {
		open.Spec.Subjects = []v1alpha1.PolicySubject{{Subject: v1alpha1.Subject{Kind: v1alpha1.SubjectGroup, Name: everybody}, MayInitiate: true}}
	}
	granting, _ := allowance.Compile(open) // the same faults
	return policy{Compiled: out, granting: granting, fetched: fetched}, faults
}

// compile the policies of the Input. The error names the field that is wrong.
func compile(in []input.Policy) ([]policy, error) {
	var (
		out  []policy
		errs field.ErrorList
	)
	seen := map[string]bool{}
	for i := range in {
		at := field.NewPath("policies").Index(i)
		switch name := in[i].Name; {
		case name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case seen[name]:
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		default:
			seen[name] = true
		}
		p := &v1alpha1.AllowancePolicy{ObjectMeta: metav1.ObjectMeta{Name: in[i].Name}, Spec: in[i].AllowancePolicySpec}
		next, faults := compiled(p, false)
		for _, f := range faults {
			errs = append(errs, field.Invalid(at.Child(strings.TrimPrefix(f.Field, "spec.")), field.OmitValueType{}, f.Message))
		}
		out = append(out, next)
	}
	return out, errs.ToAggregate()
}

// require the policies of the cluster: first their CRD by its name, and only
// where that is there the policies. Crossplane fails the whole pipeline where it
// cannot list a kind (spec 9). What is required must be so on every run.
func require(cfg config, req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) {
	if !cfg.fetch {
		return
	}
	selectors := map[string]*fnv1.ResourceSelector{requirementCRD: {
		ApiVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition",
		Match: &fnv1.ResourceSelector_MatchName{MatchName: policyCRD},
	}}
	if crd, _ := required(req, requirementCRD); len(crd) > 0 {
		selectors[requirementPolicies] = &fnv1.ResourceSelector{
			ApiVersion: v1alpha1.GroupVersion.String(), Kind: policyKind,
			Match: &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: cfg.labels}},
		}
	}
	rsp.Requirements = &fnv1.Requirements{}
	if request.HasCapability(req, fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES) {
		rsp.Requirements.Resources = selectors
		return
	}
	// A Crossplane that does not say what it can knows the older field at least.
	rsp.Requirements.ExtraResources = selectors //nolint:staticcheck // For Crossplane before 2.2.
}

// required items under a name; found is false where Crossplane did not look.
func required(req *fnv1.RunFunctionRequest, name string) (items []*fnv1.Resource, found bool) {
	r, ok := req.GetRequiredResources()[name]
	if !ok {
		r, ok = req.GetExtraResources()[name] //nolint:staticcheck // For Crossplane before 2.2.
	}
	return r.GetItems(), ok
}

// policiesFor a request: those of the Input, and those that were fetched. notes
// tell people what is missing of the latter.
func policiesFor(cfg config, req *fnv1.RunFunctionRequest) (out []policy, notes []string) {
	if !cfg.fetch {
		return cfg.policies, nil
	}
	fetched, notes := fetchedPolicies(req)
	return slices.Concat(cfg.policies, fetched), notes
}

// setOf policies.
func setOf(policies []policy) *allowance.Set {
	all := make([]*allowance.Compiled, 0, len(policies))
	for _, p := range policies {
		all = append(all, p.Compiled)
	}
	return allowance.NewSet(all, nil, nil)
}

// grant the composite the allowances of its last intent, in the state that the
// core sees: it stands nowhere where no webhook wrote it, and of policies of the
// Input no webhook knows. Which fields the intent changed cannot be known here:
// each that a rule waits for, and that is there, counts as one of them.
func (r *run) grant(ctx context.Context) {
	s := r.composite.state
	var granting []*allowance.Compiled
	for _, p := range r.policies {
		if !p.fetched || !r.composite.webhook {
			granting = append(granting, p.granting)
		}
	}
	granting = allowance.NewSet(granting, nil, nil).Of(s.GroupKind())
	if len(granting) == 0 {
		return
	}
	user := r.composite.intent.User
	if user == "" {
		user = external.Unattributed
	}
	groups := []string{everybody}
	granted, warnings := allowance.Grant(ctx, granting, allowance.Intent{
		Kind: s.GroupKind(), Name: s.Name, Generation: r.composite.intent.Generation, User: user, Groups: groups,
		Details: change.Details(nil, change.Desired(r.world.object), nil), Content: r.world.object,
		Input: &expression.Input{Object: r.world.object, Request: map[string]any{
			"user": user, "groups": []any{everybody}, "operation": string(admission.Update),
		}},
	})
	r.notes = append(r.notes, warnings...)
	have, err := allowance.Parse(s.Annotations[v1alpha1.AnnotationKeyAllowances])
	if err != nil {
		r.notes = append(r.notes, err.Error())
	}
	if all := have.With(granted...); len(all) > 0 {
		r.composite.annotate(v1alpha1.AnnotationKeyAllowances, all.String())
	}
}

func fetchedPolicies(req *fnv1.RunFunctionRequest) (out []policy, notes []string) {
	const rest = "; only the policies of the Input count"
	crd, asked := required(req, requirementCRD)
	items, listed := required(req, requirementPolicies)
	switch {
	case !asked:
		return nil, []string{"AllowancePolicies cannot be fetched: this Crossplane gives functions no required resources" + rest}
	case len(crd) == 0:
		return nil, []string{"AllowancePolicies cannot be fetched: CustomResourceDefinition " + policyCRD + " is not installed" + rest}
	case !listed:
		return nil, []string{"AllowancePolicies were not fetched" + rest}
	}
	for _, item := range items {
		p, err := policyOf(item)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		next, faults := compiled(p, true)
		for _, f := range faults {
			notes = append(notes, fmt.Sprintf("AllowancePolicy %s: %v; that part of it counts for nothing", p.Name, f))
		}
		out = append(out, next)
	}
	return out, notes
}

func policyOf(item *fnv1.Resource) (*v1alpha1.AllowancePolicy, error) {
	p := &v1alpha1.AllowancePolicy{}
	raw, err := json.Marshal(object(item.GetResource()))
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, p)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read AllowancePolicy %q: %w", p.Name, err)
	}
	return p, nil
}
