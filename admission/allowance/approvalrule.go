package allowance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/window"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// RuleOfApprovals is the path of an ApprovalRule in its status: it is in force as a whole.
const RuleOfApprovals = "spec"

// Rule is an ApprovalRule in the form in which changes are matched. It is never
// modified and safe for concurrent use.
type Rule struct {
	Name string

	// broken: something of it does not compile. It matches what the rest of it does, so
	// that a mistake never makes an approval easier (KR-14-04).
	broken bool

	appliesTo  []v1alpha1.AppliesTo
	resources  []kinds
	namespaces []*glob
	selector   labels.Selector
	// within are the labels of the Namespace.
	within    labels.Selector
	relations []v1alpha1.Relation
	verbs     []v1alpha1.Verb
	paths     []change.Pattern
	cel       *expression.Program

	require      []requirement
	expiresAfter time.Duration
	windows      *window.Windows
	alone        []v1alpha1.Subject
}

// requirement of votes.
type requirement struct {
	count      int
	subjects   []v1alpha1.Subject
	notAuthors bool
	// refuses: votes do not count where an author of the change is not known by name.
	refuses bool
	persons bool
}

// CompileRule compiles an ApprovalRule. It returns an error for each part that is not valid; the Rule is never nil.
func CompileRule(r *v1alpha1.ApprovalRule) (*Rule, []RuleError) {
	c := &compiler{rule: RuleOfApprovals}
	out := &Rule{Name: r.Name}
	c.ruleMatch(&r.Spec.Match, out)
	c.appliesTo(&r.Spec, out)
	for i, q := range r.Spec.Require {
		if q.Count < 1 {
			c.fail(fmt.Sprintf("require[%d].count", i), "must be at least 1, not %d", q.Count)
		}
		persons := q.People == nil || *q.People
		switch most, machines, known := atMost(q.Subjects, persons); {
		case !known || int(q.Count) <= most:
		case machines > 0:
			c.fail(fmt.Sprintf("require[%d].count", i), "%d votes are never cast: %d of its subjects are machines, whose votes do not count, and %d are users",
				q.Count, machines, most)
		default:
			c.fail(fmt.Sprintf("require[%d].count", i), "%d votes are never cast: its subjects are %d users", q.Count, most)
		}
		out.require = append(out.require, requirement{count: max(1, int(q.Count)), subjects: q.Subjects, notAuthors: q.NotAuthors,
			refuses: q.NotAuthors && q.UnknownAuthors == v1alpha1.UnknownAuthorsRefuse, persons: persons})
	}
	if len(r.Spec.Require) == 0 {
		c.fail("require", "name at least one vote that is required")
		out.require = []requirement{{count: 1, persons: true}}
	}
	if d := r.Spec.ExpiresAfter; d != nil {
		if d.Duration <= 0 {
			c.fail("expiresAfter", "must be more than 0, not %s", d.Duration)
		}
		out.expiresAfter = max(0, d.Duration)
	}
	if r.Spec.Windows != nil {
		out.windows = c.windows(r.Spec.Windows)
	}
	if b := r.Spec.BreakGlass; b != nil {
		out.alone = b.Subjects
	}
	out.broken = len(c.errors) > 0
	return out, c.errors
}

// appliesTo compiles the kinds of changes that a rule applies to. Changes that need no votes are restricted by
// windows alone (KR-14-20).
func (c *compiler) appliesTo(spec *v1alpha1.ApprovalRuleSpec, out *Rule) {
	out.appliesTo = spec.AppliesTo
	if len(out.appliesTo) == 0 {
		out.appliesTo = []v1alpha1.AppliesTo{v1alpha1.AppliesToDrift, v1alpha1.AppliesToExternal}
	}
	for i, a := range out.appliesTo {
		switch a {
		case v1alpha1.AppliesToDrift, v1alpha1.AppliesToExternal:
		case v1alpha1.AppliesToExpected, v1alpha1.AppliesToNewOrigin:
			if spec.Windows == nil {
				c.fail(fmt.Sprintf("appliesTo[%d]", i), "%s changes need no votes: give windows, which bind them", a)
			}
		default:
			c.fail(fmt.Sprintf("appliesTo[%d]", i), "%q is none of Drift, External, Expected and NewOrigin", a)
		}
	}
}

// windows compiles the windows of a rule; it returns nil where some part of them is not valid (KR-14-14).
func (c *compiler) windows(w *v1alpha1.ApprovalWindows) *window.Windows {
	out, errs := window.Compile(w)
	for _, e := range errs {
		c.fail("windows."+e.Field, "%s", e.Message)
	}
	return out
}

// atMost returns the number of users among the subjects whose votes can count. machines is the number of subjects
// that are machines, where only votes of persons count. known is false where there are no subjects, or they include a
// group that persons may be in (KR-14-24).
func atMost(subjects []v1alpha1.Subject, persons bool) (users, machines int, known bool) {
	if len(subjects) == 0 {
		return 0, 0, false
	}
	names := sets.New[string]()
	for _, s := range subjects {
		switch machine := persons && isMachine(s); {
		case machine:
			machines++
		case s.Kind == v1alpha1.SubjectGroup:
			return 0, 0, false
		default:
			names.Insert(userName(s))
		}
	}
	return len(names), machines, true
}

// isMachine reports whether a subject is a machine, or a group of machines only. Those are the groups that the API
// server assigns to ServiceAccounts and nodes alone.
func isMachine(s v1alpha1.Subject) bool {
	if s.Kind == v1alpha1.SubjectGroup {
		return s.Name == "system:serviceaccounts" || strings.HasPrefix(s.Name, "system:serviceaccounts:") || s.Name == "system:nodes"
	}
	return strings.HasPrefix(userName(s), "system:")
}

func (c *compiler) ruleMatch(m *v1alpha1.ApprovalRuleMatch, out *Rule) {
	if len(m.Resources)+len(m.Namespaces)+len(m.Relations)+len(m.Verbs)+len(m.Paths) == 0 && m.NamespaceSelector == nil && m.LabelSelector == nil && m.CEL == "" {
		c.fail("match", "give at least one of resources, namespaces, namespaceSelector, labelSelector, relations, verbs, paths and cel")
	}
	for _, r := range m.Resources {
		for _, k := range r.Kinds {
			if k == "*" {
				k = ""
			}
			out.resources = append(out.resources, kinds{group: r.Group, kind: k, anyGroup: r.Group == "*"})
		}
	}
	for _, n := range m.Namespaces {
		out.namespaces = append(out.namespaces, newGlob(n))
	}
	out.within, out.selector = c.labels("match.namespaceSelector", m.NamespaceSelector), c.labels("match.labelSelector", m.LabelSelector)
	out.relations, out.verbs = m.Relations, m.Verbs
	paths := each("match.paths", m.Paths, c.pattern)
	if len(paths) > 0 && !slices.ContainsFunc(paths, func(p change.Pattern) bool { return p.String() == "" }) {
		out.paths = paths
	}
	if m.CEL != "" {
		p, err := rulePrograms.Compile(m.CEL)
		if err != nil {
			c.fail("match.cel", "expression %q: %v", m.CEL, err)
		}
		out.cel = p
	}
}

// labels compiles a label selector; it returns nil where the selector is not set, so that it selects all, and where
// it does not compile.
func (c *compiler) labels(at string, s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		c.fail(at, "%v", err)
		return nil
	}
	return selector
}

// addGroups adds the groups that the rule names to a set.
func (r *Rule) addGroups(to sets.Set[string]) {
	subjects := slices.Clone(r.alone)
	for _, q := range r.require {
		subjects = append(subjects, q.subjects...)
	}
	for _, s := range subjects {
		if s.Kind == v1alpha1.SubjectGroup {
			to.Insert(s.Name)
		}
	}
}

// Rules that match a change, by their names.
type Rules []*Rule

// Groups returns the groups that ApprovalRules name; nil where they name no group. It is not modified.
func (s *Set) Groups() sets.Set[string] {
	if s == nil {
		return nil
	}
	return s.groups
}

// Windowed returns the names of the ApprovalRules that have windows, sorted.
func (s *Set) Windowed() []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, r := range s.rules {
		if r.windows != nil {
			out = append(out, r.Name)
		}
	}
	return out
}

// WindowsOf returns the state of the windows of an ApprovalRule at a time; windowed is false where there is no such
// rule, or it has no windows.
func (s *Set) WindowsOf(name string, now time.Time) (state window.State, windowed bool) {
	if s == nil {
		return window.State{}, false
	}
	i := slices.IndexFunc(s.rules, func(r *Rule) bool { return r.Name == name && r.windows != nil })
	if i < 0 {
		return window.State{}, false
	}
	return s.rules[i].windows.At(now), true
}

// HasRules reports whether there are ApprovalRules.
func (s *Set) HasRules() bool { return s != nil && len(s.rules) > 0 }

// HasRulesOf reports whether an ApprovalRule applies to such changes.
func (s *Set) HasRulesOf(a v1alpha1.AppliesTo) bool { return s != nil && s.applied.Has(a) }

// HasRulesFor reports whether an ApprovalRule may match changes that are approved on an object in a Namespace, "" for a
// cluster-scoped one.
func (s *Set) HasRulesFor(namespace string) bool {
	return s.HasRules() && (namespace == "" || slices.ContainsFunc(s.rules, func(r *Rule) bool { return r.inNamespace(namespace) }))
}

func (r *Rule) inNamespace(name string) bool {
	return len(r.namespaces) == 0 || name != "" && slices.ContainsFunc(r.namespaces, func(g *glob) bool { return g.match(name) })
}

// inNamespaceWith reports whether the Namespace of a change has labels that the rule selects. Labels that are not
// known count as selected (KR-14-23).
func (r *Rule) inNamespaceWith(c *Change) bool {
	return r.within == nil || c.Namespace != "" && (c.NamespaceLabels == nil || r.within.Matches(labels.Set(c.NamespaceLabels)))
}

// Matching returns the ApprovalRules that match a change; nil where no rule does. The cost of their expressions is
// bounded.
func (s *Set) Matching(c *Change) Rules {
	if s == nil {
		return nil
	}
	var out Rules
	var in *expression.Input
	for _, r := range s.rules {
		if !r.selects(c) {
			continue
		}
		if r.cel != nil {
			if in == nil {
				in = c.input()
			}
			in.For("", r.Name)
			if ok, err := r.cel.True(context.Background(), in); err == nil && !ok {
				continue // where it cannot be evaluated, the rule applies (KR-14-04)
			}
		}
		out = append(out, r)
	}
	return out
}

// MatchingAny returns the ApprovalRules that match any of the changes, each once.
func (s *Set) MatchingAny(changes []Change) Rules {
	var out Rules
	for i := range changes {
		for _, r := range s.Matching(&changes[i]) {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// About returns the ApprovalRules that require votes for some change of the object of a change, in its relation where it has one; none where no
// rule does.
func (s *Set) About(c *Change) Rules {
	return slices.DeleteFunc(slices.Clone(Rules(s.rules)), func(r *Rule) bool {
		return !r.votes() || !r.has(c) || c.Relation != "" && (!slices.Contains(r.appliesTo, c.appliesTo()) || !r.in(c.Relation))
	})
}

// votes reports whether the rule applies to changes that need votes.
func (r *Rule) votes() bool {
	return slices.Contains(r.appliesTo, v1alpha1.AppliesToDrift) || slices.Contains(r.appliesTo, v1alpha1.AppliesToExternal)
}

// has reports whether the rule is about the object of a change.
func (r *Rule) has(c *Change) bool {
	return (len(r.resources) == 0 || slices.ContainsFunc(r.resources, func(k kinds) bool { return k.has(c.Kind) })) &&
		r.inNamespace(c.Namespace) && r.inNamespaceWith(c) &&
		(r.selector == nil || r.selector.Matches(labels.Set(c.Labels)))
}

// selects reports whether the rule matches a change, without regard to its expression.
func (r *Rule) selects(c *Change) bool {
	return slices.Contains(r.appliesTo, c.appliesTo()) && r.has(c) &&
		r.in(c.Relation) &&
		(len(r.verbs) == 0 || slices.ContainsFunc(c.Verbs, func(v v1alpha1.Verb) bool { return slices.Contains(r.verbs, v) })) &&
		r.touches(c)
}

// in reports whether the rule matches changes in a relation.
func (r *Rule) in(relation v1alpha1.Relation) bool {
	return len(r.relations) == 0 || slices.Contains(r.relations, relation)
}

// touches reports whether the change is one of the paths of the rule.
func (r *Rule) touches(c *Change) bool {
	if len(r.paths) == 0 || c.changesAll() {
		return true
	}
	for _, f := range c.Changes {
		detail := change.Detail{Change: f, At: change.SplitPath(f.Path)}
		for _, p := range r.paths {
			if _, ok := p.Touches(detail); ok {
				return true
			}
		}
	}
	return false
}
