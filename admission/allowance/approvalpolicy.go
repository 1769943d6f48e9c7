package allowance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Exception is an ApprovalPolicy or ClusterApprovalPolicy in the form in which
// requests are decided. It is never modified and safe for concurrent use.
type Exception struct {
	// Name, and Namespace, empty for a ClusterApprovalPolicy.
	Namespace, Name string
	UID             types.UID
	// Claims as the store has them.
	Claims []v1alpha1.PolicyClaim

	subjects []v1alpha1.Subject
	// all: it has no subjects and approves for every controller.
	all bool
	// named: its subjects are those of its spec.
	named bool
	rules []exceptionRule
}

// exceptionRule is a rule in its compiled form. A nil glob, program or regexp restricts nothing; with a zero expiry
// the rule never expires.
type exceptionRule struct {
	path                              string
	content                           string
	apiVersion, kind, namespace, name *glob
	prereqs, match                    *expression.Program
	regexp                            *regexp.Regexp
	mode                              v1alpha1.ApprovalMode
	expiry                            time.Time
}

// Key returns the key of the policy: its kind, namespace and name.
func (e *Exception) Key() string {
	if e.Namespace == "" {
		return "ClusterApprovalPolicy/" + e.Name
	}
	return "ApprovalPolicy/" + e.Namespace + "/" + e.Name
}

// CompileApproval compiles an ApprovalPolicy. It speaks for the ServiceAccount of
// its name and namespace, unless it has subjects. Rules that are not right have
// an error each and approve nothing; the Exception is never nil.
func CompileApproval(p *v1alpha1.ApprovalPolicy) (*Exception, []RuleError) {
	e := &Exception{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Claims: p.Status.Claims, subjects: p.Spec.Subjects, named: len(p.Spec.Subjects) > 0}
	if len(e.subjects) == 0 {
		e.subjects = []v1alpha1.Subject{{Kind: v1alpha1.SubjectServiceAccount, Namespace: p.Namespace, Name: p.Name}}
	}
	return e, e.compile(p.Spec.Rules)
}

// CompileClusterApproval compiles a ClusterApprovalPolicy, as CompileApproval. It
// speaks for every controller where it has no subjects.
func CompileClusterApproval(p *v1alpha1.ClusterApprovalPolicy) (*Exception, []RuleError) {
	e := &Exception{Name: p.Name, UID: p.UID, Claims: p.Status.Claims, subjects: p.Spec.Subjects, all: len(p.Spec.Subjects) == 0,
		named: len(p.Spec.Subjects) > 0}
	return e, e.compile(p.Spec.Rules)
}

// compile compiles the rules. It adds those that are valid, and returns the errors of the others with the places of
// the rules in the spec.
func (e *Exception) compile(rules []v1alpha1.ApprovalPolicyRule) []RuleError {
	c := &compiler{}
	for i, r := range rules {
		at := fmt.Sprintf("rules[%d]", i)
		out := exceptionRule{path: at, content: ruleContent(r), mode: r.Mode,
			apiVersion: newGlob(r.APIVersion), kind: newGlob(r.Kind), namespace: newGlob(r.Namespace), name: newGlob(r.Name)}
		if r.Expiry != nil {
			out.expiry = r.Expiry.Time
		}
		if c.scoped(at, func() { c.approvalRule(at, r, &out) }) {
			e.rules = append(e.rules, out)
		}
	}
	return c.errors
}

// approvalRule compiles the fields of a rule other than its globs. The CRD validates the same for policies that the
// API server admitted; the composition function also reads policies from its Input.
func (c *compiler) approvalRule(at string, r v1alpha1.ApprovalPolicyRule, out *exceptionRule) {
	switch r.Mode {
	case v1alpha1.ApprovalOnce, v1alpha1.ApprovalGeneration, v1alpha1.ApprovalAlways:
	default:
		c.fail(at+".mode", "%q must be once, generation or always", r.Mode)
	}
	if r.Prereqs != nil {
		out.prereqs = c.expression(at+".prereqs.cel", r.Prereqs.CEL)
	}
	if r.Match == nil {
		return
	}
	if r.Match.CEL == "" && r.Match.Regexp == "" {
		c.fail(at+".match", "give cel or regexp")
	}
	if r.Match.CEL != "" {
		out.match = c.expression(at+".match.cel", r.Match.CEL)
	}
	if r.Match.Regexp != "" {
		re, err := expression.Regexp(r.Match.Regexp)
		if err != nil {
			c.fail(at+".match.regexp", "%v", err)
		}
		out.regexp = re
	}
}

// ruleContent returns a hash of a rule's content: a rule that is changed is another one, with claims of its own.
func ruleContent(r v1alpha1.ApprovalPolicyRule) string {
	return annotation.Digest(r, digestLength)
}

// users returns the names of the only users that the policy can approve for; named is false where it also approves
// for groups or for all users.
func (e *Exception) users() (names []string, named bool) {
	if e.all {
		return nil, false
	}
	for _, s := range e.subjects {
		if s.Kind == v1alpha1.SubjectGroup {
			return nil, false
		}
		names = append(names, userName(s))
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// userName returns the name by which the API server authenticates a subject that is a user or a ServiceAccount.
func userName(s v1alpha1.Subject) string {
	if s.Kind == v1alpha1.SubjectServiceAccount {
		return "system:serviceaccount:" + s.Namespace + ":" + s.Name
	}
	return s.Name
}

// is reports whether a user is a subject.
func is(s v1alpha1.Subject, user string, groups []string) bool {
	if s.Kind == v1alpha1.SubjectGroup {
		return slices.Contains(groups, s.Name)
	}
	return user != "" && userName(s) == user
}

// speaksFor reports whether the policy approves changes of a user (KR-05-52).
func (e *Exception) speaksFor(user string, groups []string) bool {
	return e.all || slices.ContainsFunc(e.subjects, func(s v1alpha1.Subject) bool { return is(s, user, groups) })
}

// covers reports whether the policy's Namespace lets it approve a change of a user in a Namespace. In another
// Namespace it approves only changes by the ServiceAccounts of its own (KR-13-09): the right to write policies in one
// Namespace grants nothing in others.
func (e *Exception) covers(user, namespace string) bool {
	return e.Namespace == "" || e.Namespace == namespace || strings.HasPrefix(user, "system:serviceaccount:"+e.Namespace+":")
}

// admits reports whether the policy approves changes of children in a Namespace by users other than the controller of
// the parent. It does so where its spec names its subjects, and a namespaced policy in its own Namespace alone
// (KR-05-67).
func (e *Exception) admits(namespace string) bool {
	return e.named && (e.Namespace == "" || e.Namespace == namespace)
}

// InForce returns those of the claims that belong to rules which still exist: a rule that was changed or removed is
// not claimed by its earlier content.
func (e *Exception) InForce(claims []v1alpha1.PolicyClaim) []v1alpha1.PolicyClaim {
	return slices.DeleteFunc(slices.Clone(claims), func(c v1alpha1.PolicyClaim) bool {
		return !slices.ContainsFunc(e.rules, func(r exceptionRule) bool { return r.content == c.Rule })
	})
}

// WithClaims returns a copy of the policy with other claims.
func (e *Exception) WithClaims(claims []v1alpha1.PolicyClaim) *Exception {
	out := *e
	out.Claims = claims
	return &out
}

// At returns a copy of the policy without the rules that have expired. A caller needs it if its queries have another
// time than now, as the composition function does: its decisions must not depend on when it runs, except for
// expiries.
func (e *Exception) At(now time.Time) *Exception {
	return e.keep(func(r exceptionRule) bool { return r.expiry.IsZero() || now.Before(r.expiry) })
}

// Unclaimed returns a copy of the policy with only the rules that need no claim: those of mode always.
func (e *Exception) Unclaimed() *Exception {
	return e.keep(func(r exceptionRule) bool { return r.mode == v1alpha1.ApprovalAlways })
}

func (e *Exception) keep(which func(exceptionRule) bool) *Exception {
	out := *e
	out.rules = nil
	for _, r := range e.rules {
		if which(r) {
			r.expiry = time.Time{}
			out.rules = append(out.rules, r)
		}
	}
	return &out
}

// Disowned returns a copy of the policy with claims that name no user. The composition function does not know the
// user, and must find the claim that the webhook makes for the same change.
func (e *Exception) Disowned() *Exception {
	claims := make([]v1alpha1.PolicyClaim, 0, len(e.Claims))
	for _, c := range e.Claims {
		if c.Child != nil && c.Child.Name != "" {
			c.User = ""
			c.ID = claimID(c, time.Time{})
		}
		claims = append(claims, c)
	}
	return e.WithClaims(claims)
}
