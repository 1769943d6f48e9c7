package policies

import (
	"slices"
	"strings"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
)

// Source is what an Input configures, compiled. It is not modified after Compile, and safe for concurrent use.
type Source struct {
	// Policies and Upgrades of the Input.
	Policies []*allowance.Compiled
	Upgrades []*allowance.Upgrade
	// Labels that the policies of the cluster must have; nil for all of them.
	Labels map[string]string
	// Expected: the Input names them, so that it is reported where there are none.
	Expected bool
}

// Compile compiles the policies of an Input. The error names the field that is invalid (KR-09-01).
func Compile(in *input.Input) (s Source, err error) {
	if s.Policies, err = compilePolicies(in.Policies); err != nil {
		return s, err
	}
	if s.Upgrades, err = compileUpgrades(in.Upgrades); err != nil {
		return s, err
	}
	if in.PolicySelector != nil {
		s.Expected, s.Labels = true, in.PolicySelector.MatchLabels
	}
	return s, nil
}

func compilePolicies(in []input.Policy) (out []*allowance.Compiled, err error) {
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
		p, faults := allowance.Compile(&v1alpha1.AllowancePolicy{ObjectMeta: metav1.ObjectMeta{Name: in[i].Name}, Spec: in[i].AllowancePolicySpec})
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

// invalid returns the invalid fields of an object with its spec inline at a path of the Input.
func invalid(at *field.Path, faults []allowance.RuleError) (errs field.ErrorList) {
	for _, f := range faults {
		errs = append(errs, field.Invalid(at.Child(strings.TrimPrefix(f.Field, "spec.")), field.OmitValueType{}, f.Message))
	}
	return errs
}

// InForce is what applies to one request.
type InForce struct {
	// Notes for users: what of the configured policies is ignored, and why.
	Notes []string

	// webhook reports that a webhook records what happens to the composite, and grants
	// from the fetched policies.
	webhook bool
	// own policies are of the Input, fetched ones of the cluster.
	own, fetched []*allowance.Compiled
	upgrades     []*allowance.Upgrade
	// exceptions count for what a webhook guards, unclaimed ones, which need no claim, for everything.
	exceptions, unclaimed []*allowance.Exception
	// rules of approvals, whose votes a webhook records (KR-14-11).
	rules []*allowance.Rule
	// Builds are known where there are rules: authors do not vote (KR-14-61).
	Builds Builds
	// Cluster is what the cluster configures beside policies about changes.
	Cluster
}

// InForce returns what applies to a request. webhook reports that a webhook records
// what happens to the composite. Rules that have expired now are left out.
func (s Source) InForce(req *fnv1.RunFunctionRequest, webhook bool, now time.Time) InForce {
	out := InForce{webhook: webhook, own: s.Policies}
	why, installed := unreadable(req)
	fetches := why == ""
	if !fetches && (s.Expected || installed || webhook) {
		out.Notes = []string{"AllowancePolicies, ApprovalRules and all other policies of the cluster do not count: " + why}
	}
	if fetches {
		out.fetched, out.Notes = fetch(allowancePolicies, req, allowance.Compile)
	}
	switch {
	case !webhook:
		out.upgrades = s.Upgrades
	case len(s.Upgrades) > 0:
		// The webhook keeps the fingerprints, by which each change would be part of
		// the upgrade (KR-09-07).
		out.Notes = append(out.Notes, "upgrades of the Input are ignored where there is a webhook: make UpgradeAllowances of them")
	}
	if fetches {
		upgrades, notes := fetch(upgradeAllowances, req, allowance.CompileUpgrade)
		out.upgrades, out.Notes = slices.Concat(out.upgrades, upgrades), append(out.Notes, notes...)
		out.configure(req, now)
	}
	return out
}

// configure reads what an installation has beside allowances and upgrades.
func (f *InForce) configure(req *fnv1.RunFunctionRequest, now time.Time) {
	list, notes := fetch(approvalPolicies, req, allowance.CompileApproval)
	ofCluster, others := fetch(clusterApprovalPolicies, req, allowance.CompileClusterApproval)
	f.Notes = slices.Concat(f.Notes, notes, others)
	for _, e := range slices.Concat(list, ofCluster) {
		f.exceptions, f.unclaimed = append(f.exceptions, e.At(now).Disowned()), append(f.unclaimed, e.At(now).Unclaimed())
	}
	if items, _ := Required(req, RequirementRules); len(items) > 0 && !f.webhook {
		f.Notes = append(f.Notes, "ApprovalRules do not count without a webhook: nothing else knows who approved")
	} else if len(items) > 0 {
		f.rules, notes = fetch(approvalRules, req, allowance.CompileRule)
		f.Notes = append(f.Notes, notes...)
	}
	f.Cluster, notes = clusterOf(req)
	f.Notes = append(f.Notes, notes...)
	if len(f.rules) > 0 {
		f.Builds = buildsOf(req, f.Cluster)
	}
}

// Sets returns the sets of all policies for the core, about resources that a webhook guards, and about
// others. Only a webhook claims rules of ApprovalPolicies: where there is no webhook, only those rules
// count that need no claim (KR-09-24).
func (f InForce) Sets() (guarded, unguarded *allowance.Set) {
	all := slices.Concat(f.own, f.fetched)
	unguarded = allowance.NewSet(all, f.upgrades, f.unclaimed)
	if !f.webhook || len(f.exceptions)+len(f.rules) == 0 {
		return unguarded, unguarded
	}
	return allowance.NewSet(all, f.upgrades, f.exceptions).WithRules(f.rules), unguarded.WithRules(f.rules)
}

// Upgrading reports whether there is an UpgradeAllowance.
func (f InForce) Upgrading() bool { return len(f.upgrades) > 0 }

// Grantors returns the policies of a kind that no webhook grants from (known), and those of them from
// which an intent of a user may be granted (granting). user is "" where it is unknown; below reports
// that the object has a parent. The subjects of the latter are not restricted: the function seldom
// knows the user of an intent, and never all of their groups.
func (f InForce) Grantors(kind schema.GroupKind, user string, below bool) (known, granting []*allowance.Compiled) {
	all := f.own
	if !f.webhook {
		all = slices.Concat(f.own, f.fetched)
	}
	for _, p := range all {
		if p.MayGrant(user, below) {
			granting = append(granting, p.ForAnyUser())
		}
	}
	return allowance.NewSet(all, nil, nil).Of(kind), allowance.NewSet(granting, nil, nil).Of(kind)
}
