package allowance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Verbs of a ControllerChild.
const (
	VerbCreate = "Create"
	VerbUpdate = "Update"
	VerbDelete = "Delete"
	VerbAll    = "*"
)

// RuleError is the reason why a rule does not compile.
type RuleError struct {
	// Rule in the spec, as in rules[0], initializing or match.
	Rule string
	// Field is the place, as in spec.rules[0].conditions[1].
	Field string
	// Message with the position in the field's text.
	Message string
}

// Error returns the place and the reason.
func (e RuleError) Error() string { return e.Field + ": " + e.Message }

// kinds is a set of kinds of objects: one kind, or any kind or group.
type kinds struct {
	// group is any where anyGroup; kind is any where empty.
	group, kind string
	anyGroup    bool
}

var anyKind = kinds{anyGroup: true}

// has reports whether a kind is one of them.
func (k kinds) has(gk schema.GroupKind) bool {
	return (k.anyGroup || k.group == gk.Group) && (k.kind == "" || k.kind == gk.Kind)
}

// Compiled is an AllowancePolicy in the form in which requests are decided. It
// is never modified and safe for concurrent use.
type Compiled struct {
	// Name of the policy, for messages.
	Name string
	// Created is when the policy was created; zero where it applies to all intents.
	// It does not apply to intents from before.
	Created time.Time

	target       kinds
	subjects     []v1alpha1.PolicySubject
	initializing *phase
	deleting     *phase
	rules        []rule
}

// phase of life with its own permissions.
type phase struct {
	when *expression.Program
	// broken: it does not compile, and permits nothing.
	broken bool
	allow  []allowed
}

// rule of a policy that compiles.
type rule struct {
	triggers   []change.Pattern
	conditions []*expression.Program
	capture    []change.Pattern
	allow      []allowed
}

// allowed change.
type allowed struct {
	target    kinds
	external  bool
	verbs     []string
	mutations []mutation
	// entry of the annotation for it.
	entry v1alpha1.Allowance
}

// verbsFor returns the verbs that are allowed for a child kind. Those of relation External are converted to
// Crossplane's, in their order (KR-08-49); those of other relations are returned as they are.
func (a *allowed) verbsFor(child schema.GroupKind) []string {
	if !a.external {
		return a.verbs
	}
	var out []string
	for _, name := range a.verbs {
		for _, v := range verb.Of(child).Means(name) {
			out = append(out, string(v))
		}
	}
	return out
}

// mutation is a field that may be changed, in its compiled form. No verbs are all.
type mutation struct {
	path  change.Pattern
	verbs []v1alpha1.FieldVerb
}

// programs of all policies, and of ApprovalRules, shared by text.
var (
	programs     = expression.NewCache()
	rulePrograms = expression.NewRuleCache()
)

// compiler collects the errors of one policy.
type compiler struct {
	rule   string
	errors []RuleError
	// certain and possible are the verbs without effect, as Ineffective returns them.
	certain, possible []RuleError
}

// fail records an error of the current rule at a field below spec.
func (c *compiler) fail(field string, format string, args ...any) {
	c.errors = append(c.errors, RuleError{Rule: c.rule, Field: "spec." + field, Message: fmt.Sprintf(format, args...)})
}

// scoped runs f for one rule, and reports whether it found nothing wrong.
func (c *compiler) scoped(rule string, f func()) bool {
	before := len(c.errors)
	c.rule = rule
	f()
	return len(c.errors) == before
}

// pattern compiles a path. It returns the zero Pattern, which matches nothing, where the path is invalid.
func (c *compiler) pattern(field, text string) change.Pattern {
	p, err := change.ParsePattern(text)
	if err != nil {
		c.fail(field, "%v", err)
	}
	return p
}

// trigger compiles the path of a trigger, which must be one that some change of desired state can match.
func (c *compiler) trigger(field, text string) change.Pattern {
	p := c.pattern(field, text)
	if p.Outside() {
		c.fail(field, "path %q is no desired state: only a change outside of apiVersion, kind, metadata and status is a cause", text)
	}
	return p
}

// expression compiles a CEL expression; it returns nil where it is invalid.
func (c *compiler) expression(field, text string) *expression.Program {
	p, err := programs.Compile(text)
	if err != nil {
		c.fail(field, "expression %q: %v", text, err)
	}
	return p
}

// each compiles the items of a list, in their order.
func each[T any](field string, texts []string, compile func(field, text string) T) []T {
	out := make([]T, 0, len(texts))
	for i, t := range texts {
		out = append(out, compile(fmt.Sprintf("%s[%d]", field, i), t))
	}
	return out
}

// Compile compiles an AllowancePolicy of either form. It returns the policy with every rule that is valid, and an
// error for each that is not, in the order of the spec; the Compiled is never nil. A policy that names no kind at all
// has an error with Rule "" and applies to nothing.
func Compile(p *v1alpha1.AllowancePolicy) (*Compiled, []RuleError) {
	c := &compiler{}
	return c.policy(p), c.errors
}

func (c *compiler) policy(p *v1alpha1.AllowancePolicy) *Compiled {
	out := &Compiled{Name: p.Name, Created: p.CreationTimestamp.Time, subjects: slices.Clone(p.Spec.Subjects)}
	switch {
	case p.Spec.Match != nil && p.Spec.Target != nil:
		c.fail("match", "give either target (with rules) or match (with allow), not both")
	case p.Spec.Match != nil:
		out.target = kindsOf(p.Spec.Match.APIGroup, p.Spec.Match.Kind)
		c.shorthand(out, p.Spec.Match, p.Spec.Allow)
	case p.Spec.Target != nil:
		out.target = kinds{group: p.Spec.Target.APIGroup, kind: p.Spec.Target.Kind}
		c.long(out, &p.Spec)
	default:
		c.fail("target", "it is missing: name the kind that the policy is about")
	}
	return out
}

// kindsOf returns the kinds that the shorthand form names. Without a group any group is meant; "" is the core group.
func kindsOf(group *string, kind string) kinds {
	if group == nil {
		return kinds{anyGroup: true, kind: kind}
	}
	return kinds{group: *group, kind: kind}
}

// apiVersion returns a group and version in the form of an entry of the allowances annotation. A policy without a
// version applies to any version.
func apiVersion(group, version string) string {
	switch {
	case version == "" && group == "":
		version = "v1" // an entry without apiVersion is for every group
	case version == "":
		version = "*"
	}
	return schema.GroupVersion{Group: group, Version: version}.String()
}

// long compiles the long form of a policy: target with rules.
func (c *compiler) long(out *Compiled, spec *v1alpha1.AllowancePolicySpec) {
	if spec.Initializing != nil {
		out.initializing = &phase{}
		ok := c.scoped("initializing", func() {
			if spec.Initializing.When != "" {
				out.initializing.when = c.expression("initializing.when", spec.Initializing.When)
			}
			out.initializing.allow = c.allow("initializing.allow", spec.Initializing.Allow)
		})
		out.initializing.broken = !ok
	}
	if spec.Deleting != nil {
		out.deleting = &phase{}
		ok := c.scoped("deleting", func() {
			out.deleting.allow = c.allow("deleting.allow", spec.Deleting.Allow)
		})
		out.deleting.broken = !ok
	}
	for i, r := range spec.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		var compiled rule
		if c.scoped(at, func() {
			compiled = rule{
				triggers:   []change.Pattern{c.trigger(at+".trigger", r.Trigger)},
				conditions: each(at+".conditions", r.Conditions, c.expression),
				capture:    each(at+".capture", r.Capture, c.pattern),
				allow:      c.allow(at+".allow", r.Allow),
			}
		}) {
			out.rules = append(out.rules, compiled)
		}
	}
}

// shorthand compiles the shorthand form of a policy: match with allow (KR-06-01).
func (c *compiler) shorthand(out *Compiled, match *v1alpha1.AllowanceMatch, allow []v1alpha1.ShorthandAllow) {
	var compiled rule
	if c.scoped("match", func() {
		compiled.triggers = each("match.fields", match.Fields, c.trigger)
		compiled.conditions = each("match.cel", match.CEL, c.expression)
		compiled.capture = each("match.capture", match.Capture, c.pattern)
		compiled.allow = c.shorthandAllow("allow", allow)
	}) {
		out.rules = append(out.rules, compiled)
	}
}

// allow compiles allowed changes of the long form, each with the entry that a grant
// writes: an entry has to be understood without the policy, which may change.
func (c *compiler) allow(field string, in []v1alpha1.AllowedChange) []allowed {
	out := make([]allowed, 0, len(in))
	for i, a := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		e := allowed{target: anyKind, external: a.Relation == v1alpha1.RelationExternal, verbs: slices.Clone(a.Verbs),
			entry: v1alpha1.Allowance{Relation: a.Relation, Verbs: slices.Clone(a.Verbs), ExternalTarget: a.ExternalTarget}}
		about := verb.Target{AnyKind: true, AnyGroup: true}
		if a.Target != nil {
			about = verb.Target{Group: a.Target.APIGroup, Kind: a.Target.Kind}
			e.target = kinds{group: a.Target.APIGroup, kind: a.Target.Kind}
			e.entry.Kind = a.Target.Kind
			e.entry.APIVersion = apiVersion(a.Target.APIGroup, a.Target.APIVersion)
		}
		e.mutations = c.mutations(at+".mutations", a.Mutations)
		e.entry.Mutations = slices.Clone(a.Mutations)
		c.checkAllowed(at, a)
		c.effects(at+".verbs", about, &e)
		out = append(out, e)
	}
	return out
}

// checkAllowed repeats the validation of the CRD, for policies that no
// API server has seen: those inline in a function's input, or in a file.
func (c *compiler) checkAllowed(at string, a v1alpha1.AllowedChange) {
	external := a.Relation == v1alpha1.RelationExternal
	switch {
	case !external && a.Relation != v1alpha1.RelationControllerChild:
		c.fail(at+".relation", "%q must be %s or %s", a.Relation, v1alpha1.RelationControllerChild, v1alpha1.RelationExternal)
		return
	case external && len(a.Mutations) > 0:
		c.fail(at+".mutations", "mutations go with relation %s only", v1alpha1.RelationControllerChild)
	case !external && len(a.ExternalTarget) > 0:
		c.fail(at+".externalTarget", "externalTarget goes with relation %s only", v1alpha1.RelationExternal)
	case len(a.Verbs) == 0:
		c.fail(at+".verbs", "it is empty")
	}
	for i, v := range a.Verbs {
		c.checkVerb(fmt.Sprintf("%s.verbs[%d]", at, i), v, external)
	}
}

var (
	childVerbs    = []string{VerbCreate, VerbUpdate, VerbDelete, VerbAll}
	externalVerbs = []string{VerbCreate, VerbUpdate, VerbDelete, verb.Apply, verb.Destroy, verb.Sync, verb.Remove, VerbAll}
)

// checkVerb validates a verb of a permitted change of a child, or of an external resource.
func (c *compiler) checkVerb(field, name string, external bool) {
	known := childVerbs
	if external {
		known = externalVerbs
	}
	if !slices.Contains(known, name) {
		c.fail(field, "%q must be one of %s", name, strings.Join(known, ", "))
	}
}

// mutations compiles the fields that may be changed.
func (c *compiler) mutations(field string, in []v1alpha1.AllowedMutation) []mutation {
	out := make([]mutation, 0, len(in))
	for i, m := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		out = append(out, mutation{path: c.pattern(at+".jsonPath", m.JSONPath), verbs: m.Verbs})
		for j, v := range m.Verbs {
			if v != v1alpha1.FieldInsert && v != v1alpha1.FieldDelete && v != v1alpha1.FieldMutate {
				c.fail(fmt.Sprintf("%s.verbs[%d]", at, j), "%q must be Insert, Delete or Mutate", v)
			}
		}
	}
	return out
}

// shorthandAllow converts the shorthand form into the long one.
func (c *compiler) shorthandAllow(field string, in []v1alpha1.ShorthandAllow) []allowed {
	out := make([]allowed, 0, len(in))
	for i, a := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		e := allowed{target: kindsOf(a.APIGroup, a.Kind)}
		e.entry = v1alpha1.Allowance{Relation: v1alpha1.RelationControllerChild, Kind: a.Kind}
		if a.APIGroup != nil {
			e.entry.APIVersion = apiVersion(*a.APIGroup, "")
		}
		switch a.Relation {
		case v1alpha1.RelationExternal:
			e.external, e.entry.Relation = true, v1alpha1.RelationExternal
			e.verbs = slices.Clone(a.Mutations)
			for j, v := range a.Mutations {
				c.checkVerb(fmt.Sprintf("%s.mutations[%d]", at, j), v, true)
			}
			c.effects(at+".mutations", verb.Target{Kind: a.Kind, Group: e.target.group, AnyGroup: a.APIGroup == nil, AnyKind: a.Kind == ""}, &e)
		case v1alpha1.RelationChild, v1alpha1.RelationControllerChild:
			c.shorthandMutations(at, a.Mutations, &e)
		default:
			c.fail(at+".relation", "%q must be %s or %s", a.Relation, v1alpha1.RelationChild, v1alpha1.RelationExternal)
		}
		e.entry.Verbs = e.verbs
		out = append(out, e)
	}
	return out
}

func (c *compiler) shorthandMutations(at string, mutations []string, e *allowed) {
	for i, m := range mutations {
		switch m {
		case "create":
			e.verbs = append(e.verbs, VerbCreate)
		case "delete":
			e.verbs = append(e.verbs, VerbDelete)
		default:
			e.mutations = append(e.mutations, mutation{path: c.pattern(fmt.Sprintf("%s.mutations[%d]", at, i), m)})
			e.entry.Mutations = append(e.entry.Mutations, v1alpha1.AllowedMutation{JSONPath: m})
		}
	}
	if len(e.mutations) > 0 {
		e.verbs = append(e.verbs, VerbUpdate)
	}
}
