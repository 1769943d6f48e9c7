package policies

import (
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
)

// Policy is an AllowancePolicy in force.
type Policy struct {
	*allowance.Compiled
	// granting is the policy without a restriction of its subjects: the function
	// seldom knows the user of an intent, and never all of their groups. Whether a
	// policy grants is for allowance.Compiled.MayGrant.
	granting *allowance.Compiled
	// fetched from the cluster, so that a webhook reads it too.
	fetched bool
}

// Source is what an Input configures, compiled. The zero Source has no policies.
// It is not modified after Compile, and safe for concurrent use.
type Source struct {
	// Policies and Upgrades of the Input.
	Policies []Policy
	Upgrades []*allowance.Upgrade
	// Fetch the policies of the cluster that have these Labels; nil labels are all.
	Fetch  bool
	Labels map[string]string
}

// Compile the policies of an Input. The error names the field that is invalid
// (KR-09-01).
func Compile(in *input.Input) (s Source, err error) {
	if s.Policies, err = compilePolicies(in.Policies); err != nil {
		return s, err
	}
	if s.Upgrades, err = compileUpgrades(in.Upgrades); err != nil {
		return s, err
	}
	if in.PolicySelector != nil {
		s.Fetch, s.Labels = true, in.PolicySelector.MatchLabels
	}
	return s, nil
}

func compilePolicies(in []input.Policy) (out []Policy, err error) {
	var errs field.ErrorList
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
		p, faults := compile(&v1alpha1.AllowancePolicy{ObjectMeta: metav1.ObjectMeta{Name: in[i].Name}, Spec: in[i].AllowancePolicySpec}, false)
		out, errs = append(out, p), append(errs, invalid(at, faults)...)
	}
	return out, errs.ToAggregate()
}

func compileUpgrades(in []input.Upgrade) (out []*allowance.Upgrade, err error) {
	var errs field.ErrorList
	for i := range in {
		at := field.NewPath("upgrades").Index(i)
		if in[i].Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		u, faults := allowance.CompileUpgrade(&v1alpha1.UpgradeAllowance{
			ObjectMeta: metav1.ObjectMeta{Name: in[i].Name}, Spec: in[i].UpgradeAllowanceSpec,
		})
		out, errs = append(out, u), append(errs, invalid(at, faults)...)
	}
	return out, errs.ToAggregate()
}

// invalid fields of an object whose spec is inline at a path of the Input.
func invalid(at *field.Path, faults []allowance.RuleError) (errs field.ErrorList) {
	for _, f := range faults {
		errs = append(errs, field.Invalid(at.Child(strings.TrimPrefix(f.Field, "spec.")), field.OmitValueType{}, f.Message))
	}
	return errs
}

func compile(p *v1alpha1.AllowancePolicy, fetched bool) (Policy, []allowance.RuleError) {
	out, faults := allowance.Compile(p)
	open := p.DeepCopy()
	if everyUser, _ := allowance.GroupsOf(""); len(open.Spec.Subjects) > 0 {
		open.Spec.Subjects = []v1alpha1.PolicySubject{{Subject: v1alpha1.Subject{Kind: v1alpha1.SubjectGroup, Name: everyUser[0]}, MayInitiate: true}}
	}
	granting, _ := allowance.Compile(open) // the same faults
	return Policy{Compiled: out, granting: granting, fetched: fetched}, faults
}

// InForce is what applies to one request.
type InForce struct {
	Policies []Policy
	Upgrades []*allowance.Upgrade
	// Notes for users: what of the configured policies is ignored, and why.
	Notes []string
}

// InForce returns what applies to a request. webhook reports that a webhook records
// what happens to the composite.
func (s Source) InForce(req *fnv1.RunFunctionRequest, webhook bool) InForce {
	out := InForce{Policies: s.Policies}
	if s.Fetch {
		out.Policies, out.Notes = fetchPolicies(req, s.Policies)
	}
	switch {
	case !webhook:
		out.Upgrades = s.Upgrades
	case len(s.Upgrades) > 0:
		// The webhook keeps the fingerprints, by which each change would be part of
		// the upgrade (KR-09-07).
		out.Notes = append(out.Notes, "upgrades of the Input are ignored where there is a webhook: make UpgradeAllowances of them")
	}
	if s.Fetch {
		upgrades, notes := fetchUpgrades(req, out.Upgrades)
		out.Upgrades, out.Notes = upgrades, append(out.Notes, notes...)
	}
	return out
}

// Set of the policies for the core.
func (f InForce) Set() *allowance.Set {
	all := make([]*allowance.Compiled, 0, len(f.Policies))
	for _, p := range f.Policies {
		all = append(all, p.Compiled)
	}
	return allowance.NewSet(all, f.Upgrades, nil)
}

// Grantors are the policies of a kind that no webhook grants from (known), and those
// of them from which an intent of a user may be granted (granting). user is "" where
// it is unknown; below reports that the object has a parent.
func (f InForce) Grantors(kind schema.GroupKind, user string, below, webhook bool) (known, granting []*allowance.Compiled) {
	for _, p := range f.Policies {
		if p.fetched && webhook {
			continue // the webhook grants from it, and knows the user
		}
		known = append(known, p.Compiled)
		if p.MayGrant(user, below) {
			granting = append(granting, p.granting)
		}
	}
	return allowance.NewSet(known, nil, nil).Of(kind), allowance.NewSet(granting, nil, nil).Of(kind)
}
