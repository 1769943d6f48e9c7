package allowance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Kind of objects, as a cluster has it.
type Kind struct {
	schema.GroupKind
	// Schemas of the served versions. A nil Schema is one that could not be read.
	Schemas map[string]*change.Schema
	// External: its objects may represent external resources, or be above such.
	External bool
	// ClusterScoped objects are in no Namespace.
	ClusterScoped bool
}

// Kinds of a cluster.
type Kinds interface {
	// Find the kinds of a name: of one group, or of any. known is false where it cannot be
	// determined which there are. The schemas may be left out.
	Find(kind, group string, anyGroup bool) (found []Kind, known bool)
	// Names of the kinds that are known, of one group or of any, in any order.
	Names(group string, anyGroup bool) []string
}

// Unbound returns an error for each part of an AllowancePolicy that can have no effect, in the order of the spec.
// Nothing is refused for it, since a kind may be installed later (KR-06-26). Parts that do not compile are left out.
// kinds is nil where no cluster is known.
func Unbound(p *v1alpha1.AllowancePolicy, kinds Kinds) []RuleError {
	if p.Spec.Match != nil {
		b := &binding{kinds: kinds, of: target{kind: p.Spec.Match.Kind, anyGroup: true}}
		if p.Spec.Match.APIGroup != nil {
			b.of.group, b.of.anyGroup = *p.Spec.Match.APIGroup, false
		}
		b.rule = "match"
		b.exists("match.kind", b.of)
		b.subjects("subjects", subjectsOf(p.Spec.Subjects))
		b.granting(p.Spec.Subjects)
		b.fields("match.fields", p.Spec.Match.Fields)
		b.conditions("match.cel", p.Spec.Match.CEL)
		b.fields("match.capture", p.Spec.Match.Capture)
		b.shorthand("allow", p.Spec.Allow)
		return b.found
	}
	if p.Spec.Target == nil {
		return nil
	}
	b := &binding{kinds: kinds, of: targetOf(p.Spec.Target), derived: p.Annotations[v1alpha1.AnnotationKeyDerivedFrom] != ""}
	b.exists("target", b.of)
	b.subjects("subjects", subjectsOf(p.Spec.Subjects))
	if len(p.Spec.Rules) > 0 {
		b.granting(p.Spec.Subjects)
	}
	b.phases(&p.Spec)
	for i, r := range p.Spec.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		b.rule = at
		b.field(at+".trigger", r.Trigger, b.of)
		b.conditions(at+".conditions", r.Conditions)
		b.fields(at+".capture", r.Capture)
		b.allow(at+".allow", r.Allow, false)
	}
	return b.found
}

// UnboundUpgrade returns the same as Unbound, for an UpgradeAllowance.
func UnboundUpgrade(u *v1alpha1.UpgradeAllowance, kinds Kinds, now time.Time) []RuleError {
	b := &binding{kinds: kinds, rule: UpgradeRule}
	b.user("serviceAccount", u.Spec.ServiceAccount)
	if name := u.Spec.ServiceAccount; strings.Contains(name, "/") && !strings.Contains(name, ":") {
		b.add("serviceAccount", "%q is the user name of no ServiceAccount; write %s%s", name, serviceAccountPrefix, strings.Replace(name, "/", ":", 1))
	}
	if until := u.Spec.ValidUntil; until != nil && !now.Before(until.Time) {
		b.add("validUntil", "it is over")
	}
	b.shorthand("allow", u.Spec.Allow)
	return b.found
}

// UnboundApproval returns the same as Unbound, for the spec of an ApprovalPolicy or, with an empty namespace, of a
// ClusterApprovalPolicy.
func UnboundApproval(namespace string, spec *v1alpha1.ApprovalPolicySpec, kinds Kinds, now time.Time) []RuleError {
	b := &binding{kinds: kinds}
	b.subjects("subjects", spec.Subjects)
	for i, r := range spec.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		b.rule = at
		if r.Expiry != nil && !now.Before(r.Expiry.Time) {
			b.add(at+".expiry", "it is over")
		}
		b.approvalRule(at, &r)
		b.inNamespace(at, namespace, spec.Subjects, &r)
		for j, earlier := range spec.Rules[:i] {
			if shadows(&earlier, &r, now) {
				b.add(at, "rules[%d] approves first whatever this rule matches", j)
				break
			}
		}
	}
	return b.found
}

// binding collects what can have no effect.
type binding struct {
	kinds Kinds
	// of is the kind that the policy is about.
	of    target
	rule  string
	found []RuleError
	// derived: the policy is one of a graph, whose resources may have names by expressions.
	derived bool
}

// target is a kind as a policy names it.
type target struct {
	group, version, kind string
	anyGroup             bool
}

func targetOf(t *v1alpha1.PolicyTarget) target {
	return target{group: t.APIGroup, version: t.APIVersion, kind: t.Kind}
}

func (t target) String() string {
	if t.anyGroup {
		return t.kind
	}
	return schema.GroupKind{Group: t.group, Kind: t.kind}.String()
}

func (b *binding) add(field, format string, args ...any) {
	b.found = append(b.found, RuleError{Rule: b.rule, Field: "spec." + field, Message: fmt.Sprintf(format, args...)})
}

// find returns the kinds of a target; known is false where it cannot be determined which kinds exist. Where known is
// true and found is empty, the cluster has no such kind.
func (b *binding) find(t target) (found []Kind, known bool) {
	if b.kinds == nil || t.kind == "" {
		return nil, false
	}
	return b.kinds.Find(t.kind, t.group, t.anyGroup)
}

// noKind adds an error for a kind that the cluster does not have, with the one of another group or of a similar name that was probably meant.
func (b *binding) noKind(field string, t target) {
	if found, known := b.kinds.Find(t.kind, "", true); known && len(found) > 0 {
		b.add(field, "the cluster has no kind %s; did you mean %s?", t, found[0].GroupKind)
		return
	}
	if near := suggest.Nearest(t.kind, b.kinds.Names(t.group, t.anyGroup)); near != "" {
		b.add(field, "the cluster has no kind %s; did you mean %s?", t, near)
		return
	}
	b.add(field, "the cluster has no kind %s", t)
}

// lacks returns the first field on a path that no object of a target has; "" where that is not known.
func (b *binding) lacks(t target, lacking func(*change.Schema) string) string {
	found, known := b.find(t)
	if !known || len(found) == 0 {
		return ""
	}
	first := ""
	for _, k := range found {
		for _, s := range k.schemas(t.version) {
			at := lacking(s)
			if at == "" {
				return ""
			}
			first = at
		}
	}
	return first
}

// schemas returns the schema of a version, or those of all versions where the given one is not served.
func (k *Kind) schemas(version string) []*change.Schema {
	if s, ok := k.Schemas[version]; ok {
		return []*change.Schema{s}
	}
	return slices.Collect(maps.Values(k.Schemas))
}

func (b *binding) fields(field string, paths []string) {
	for i, p := range paths {
		b.field(fmt.Sprintf("%s[%d]", field, i), p, b.of)
	}
}

// field adds an error where the schema of a target lacks a field (KR-06-28).
func (b *binding) field(field, path string, t target) {
	p, err := change.ParsePattern(path)
	if err != nil {
		return
	}
	if at := b.lacks(t, func(s *change.Schema) string { return s.LacksPattern(p) }); at != "" {
		b.add(field, "%s has no field %s", t, at)
	}
}

// constant evaluates an expression over objects of a target.
func (b *binding) constant(text string, t target) (expression.Outcome, string) {
	program, err := programs.Compile(text)
	if err != nil {
		return expression.Depends, ""
	}
	return program.Constant(func(path []string) string {
		at := make([]change.Segment, 0, len(path))
		for _, key := range path {
			at = append(at, change.Segment{Key: key})
		}
		return b.lacks(t, func(s *change.Schema) string { return s.Lacks(at) })
	})
}

// conditions adds an error for each condition that holds for no object (KR-06-28).
func (b *binding) conditions(field string, texts []string) {
	for i, text := range texts {
		b.condition(fmt.Sprintf("%s[%d]", field, i), text, b.of)
	}
}

func (b *binding) condition(field, text string, t target) {
	switch out, by := b.constant(text, t); {
	case out != expression.AlwaysFalse && out != expression.AlwaysFails:
	case by == "":
		b.add(field, "it is never true")
	default:
		b.add(field, "it is never true: %s has no field %s", t, by)
	}
}

// phases adds errors for the sections about phases of life that never apply, or always do (KR-06-27).
func (b *binding) phases(spec *v1alpha1.AllowancePolicySpec) {
	if s := spec.Initializing; s != nil {
		b.rule = "initializing"
		if s.When != "" {
			b.when(s.When)
		}
		b.allow("initializing.allow", s.Allow, true)
	}
	if s := spec.Deleting; s != nil {
		b.rule = "deleting"
		b.allow("deleting.allow", s.Allow, false)
	}
}

func (b *binding) when(text string) {
	const field, leaveOut = "initializing.when", "leave `when` out to end it once the object has settled or was Ready"
	switch out, by := b.constant(text, b.of); {
	case out == expression.AlwaysTrue && by != "":
		b.add(field, "it never ends: %s has no field %s; %s", b.of, by, leaveOut)
	case out == expression.AlwaysTrue:
		b.add(field, "it never ends; %s", leaveOut)
	case out == expression.Depends:
	case by != "":
		b.add(field, "it never begins: %s has no field %s; %s", b.of, by, leaveOut)
	default:
		b.add(field, "it never begins; %s", leaveOut)
	}
}

// allow adds errors for permissions of the long form that can have no effect.
func (b *binding) allow(field string, in []v1alpha1.AllowedChange, initializing bool) {
	for i, a := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		t := target{}
		if a.Target != nil {
			t = targetOf(a.Target)
		}
		b.exists(at+".target", t)
		if a.Relation == v1alpha1.RelationExternal {
			b.external(at, t)
			continue
		}
		if len(a.Mutations) > 0 && !initializing && !Gives(a.Verbs, VerbUpdate) {
			b.add(at+".mutations", "fields are changed by verb Update, which is not one of verbs")
		}
		for j, m := range a.Mutations {
			b.mutation(fmt.Sprintf("%s.mutations[%d].jsonPath", at, j), m.JSONPath, t)
			b.replaced(fmt.Sprintf("%s.mutations[%d].jsonPath", at, j), m.JSONPath, t, Gives(a.Verbs, VerbCreate) || initializing)
		}
	}
}

// shorthand adds errors for permissions of the shorthand form that can have no effect.
func (b *binding) shorthand(field string, in []v1alpha1.ShorthandAllow) {
	for i, a := range in {
		at := fmt.Sprintf("%s[%d]", field, i)
		t := target{kind: a.Kind, anyGroup: a.APIGroup == nil}
		if a.APIGroup != nil {
			t.group = *a.APIGroup
		}
		b.exists(at+".kind", t)
		if a.Relation == v1alpha1.RelationExternal {
			b.external(at, t)
			continue
		}
		creates := slices.Contains(a.Mutations, "create")
		for j, m := range a.Mutations {
			if m != "create" && m != "delete" {
				b.mutation(fmt.Sprintf("%s.mutations[%d]", at, j), m, t)
				b.replaced(fmt.Sprintf("%s.mutations[%d]", at, j), m, t, creates)
			}
		}
	}
}

// exists adds an error where the cluster does not have the kind of a target.
func (b *binding) exists(field string, t target) {
	if found, known := b.find(t); known && len(found) == 0 {
		b.noKind(field, t)
	}
}

// external adds an error for a permission of relation External that is for objects which represent no external
// resource (KR-06-31).
func (b *binding) external(field string, t target) {
	if t.kind == "" {
		if internalParents[schema.GroupKind{Group: b.of.group, Kind: b.of.kind}] || b.of.anyGroup && internalParents[appsKind(b.of.kind)] {
			b.add(field, "it has no effect: no child of a %s represents an external resource", b.of.kind)
		}
		return
	}
	found, known := b.find(t)
	if !known || len(found) == 0 {
		return
	}
	for _, k := range found {
		if k.External || verb.Of(k.GroupKind) != verb.Crossplane {
			return
		}
	}
	b.add(field, "it has no effect: objects of %s stand for no external resources", t)
}

func appsKind(kind string) schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: kind} }

// internalParents are kinds with controllers that make children of Kubernetes' own kinds alone.
var internalParents = map[schema.GroupKind]bool{
	appsKind("Deployment"): true, appsKind("ReplicaSet"): true, appsKind("StatefulSet"): true, appsKind("DaemonSet"): true,
	{Group: "batch", Kind: "Job"}: true, {Group: "batch", Kind: "CronJob"}: true,
}

// mutation adds an error where the mutation of a field is permitted that is never changed (KR-06-28).
func (b *binding) mutation(field, path string, t target) {
	p, err := change.ParsePattern(path)
	if err != nil {
		return
	}
	if p.Outside() {
		if b.derived && path == "metadata.name" {
			return
		}
		b.add(field, "%q is no desired state: no change of it needs a permission", path)
		return
	}
	b.field(field, path, t)
}

// replaced adds an error where the mutation of a field is permitted that a controller changes by making another
// object. Verb Create permits that (KR-06-31).
func (b *binding) replaced(field, path string, t target, creates bool) {
	if creates || b.of.kind != "Deployment" || t.kind != "ReplicaSet" || !(b.of.anyGroup || b.of.group == "apps") {
		return
	}
	if p, err := change.ParsePattern(path); err == nil && slices.Equal(p.Head(2), []string{"spec", "template"}) {
		b.add(field, "it is never changed: the controller makes another ReplicaSet for another template, which is verb Create")
	}
}
