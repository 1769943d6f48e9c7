package fn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
)

// policy in force.
type policy struct {
	*allowance.Compiled
	// granting is the policy with everybody for its subjects: the function knows
	// hardly ever who made an intent, and never all of that person's groups. See
	// allowance.Compiled.MayGrant.
	granting *allowance.Compiled
	// fetched from the cluster, so that a webhook knows it too.
	fetched bool
}

func compiled(p *v1alpha1.AllowancePolicy, fetched bool) (policy, []allowance.RuleError) {
	out, faults := allowance.Compile(p)
	open := p.DeepCopy()
	everybody, _ := allowance.GroupsOf("")
	if len(open.Spec.Subjects) > 0 {
		open.Spec.Subjects = []v1alpha1.PolicySubject{{Subject: v1alpha1.Subject{Kind: v1alpha1.SubjectGroup, Name: everybody[0]}, MayInitiate: true}}
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

// policiesFor a request: those of the Input, and those that were fetched. notes
// tell people what is missing of the latter.
func policiesFor(cfg config, req *fnv1.RunFunctionRequest) (out []policy, notes []string) {
	if !cfg.fetch {
		return cfg.policies, nil
	}
	fetched, notes := fetchedPolicies(req)
	return slices.Concat(cfg.policies, fetched), notes
}

// grant the composite the allowances of its last intent, in the state that the
// core sees: it stands nowhere where no webhook wrote it, and of policies of the
// Input no webhook knows.
func (r *run) grant(ctx context.Context) {
	s, intent := r.composite.state, r.composite.intent
	var known, granting []*allowance.Compiled
	for _, p := range r.policies {
		if p.fetched && r.composite.webhook {
			continue // granted by the webhook, which knows more
		}
		known = append(known, p.Compiled)
		if p.MayGrant(intent.User, s.Parent.Name != "") {
			granting = append(granting, p.granting)
		}
	}
	known, granting = allowance.NewSet(known, nil, nil).Of(s.GroupKind()), allowance.NewSet(granting, nil, nil).Of(s.GroupKind())
	if len(known) == 0 {
		return
	}
	back := r.lookBack(known)
	r.remembered = back.value()
	if back.settled {
		return // all of them are consumed
	}
	user := intent.User
	if user == "" {
		user = external.Unattributed
	}
	groups, _ := allowance.GroupsOf(intent.User)
	granted, warnings := allowance.Grant(ctx, granting, allowance.Intent{
		Kind: s.GroupKind(), Name: s.Name, Generation: intent.Generation, User: user, Groups: groups,
		Details: back.details(), Content: r.world.object,
		Input: &expression.Input{Object: r.world.object, OldObject: back.object(s), Parent: identified(s.Parent), Request: map[string]any{
			"user": user, "groups": anys(groups), "operation": string(admission.Update),
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

func anys(in []string) []any {
	out := make([]any, 0, len(in))
	for _, s := range in {
		out = append(out, s)
	}
	return out
}

// fetchedPolicies of the cluster.
func fetchedPolicies(req *fnv1.RunFunctionRequest) (out []policy, notes []string) {
	items, why := fetchable{requirementCRD, requirementPolicies, policyCRD}.items(req)
	if why != "" {
		return nil, []string{"AllowancePolicies of the cluster do not count: " + why}
	}
	for _, item := range items {
		p := &v1alpha1.AllowancePolicy{}
		if err := into(item, p); err != nil {
			notes = append(notes, fmt.Sprintf("cannot read AllowancePolicy %q: %v", p.Name, err))
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
