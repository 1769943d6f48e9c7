package replay

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// learned is what was recorded of one kind of parents.
type learned struct {
	gvk      schema.GroupVersionKind
	subjects map[v1alpha1.PolicySubject]bool
	// rules by trigger, which is a general path of the parent, and by the kind of the
	// child.
	rules map[string]map[schema.GroupVersionKind]*observed
	// deleted kinds of children while a parent was being deleted, with whether their external resources were, too.
	deleted map[schema.GroupVersionKind]bool
}

// observed changes of one kind of children by one cause. verbs are those of an
// AllowedChange, mutations the kinds of change by the general path of the field. A
// child that was only created or deleted has no mutations.
type observed struct {
	verbs     map[string]bool
	mutations map[string]map[v1alpha1.FieldVerb]bool
	// external verbs of the child's system that the changes needed, by which its gate opens.
	external map[v1alpha1.Verb]bool
}

// Learner derives AllowancePolicies from recorded changes and Drifts. It is not
// safe for concurrent use.
type Learner struct {
	kinds map[schema.GroupKind]*learned
	// causes are the general paths that changed at each version of a parent. Changes
	// without a hop of their own are no causes: they are self writes.
	causes map[causeKey][]string
	// settled generation of parents: what their controllers do after it is drift,
	// which no allowance covers.
	settled map[causeKey]int64
	// doomed parents are being deleted.
	doomed map[causeKey]bool
}

// causeKey identifies a version of a parent by what a hop has of it. A hop has no UID,
// and its Namespace only where it differs from the carrier's: two parents of the same
// kind and name in different namespaces are not distinguished. generation is 0 in the
// keys of settled.
type causeKey struct {
	kind       schema.GroupKind
	name       string
	generation int64
}

// NewLearner without any recorded changes.
func NewLearner() *Learner {
	return &Learner{kinds: map[schema.GroupKind]*learned{}, causes: map[causeKey][]string{}, settled: map[causeKey]int64{},
		doomed: map[causeKey]bool{}}
}

// index of an item, which the paths of policies replace by [*].
var index = regexp.MustCompile(`\[\d+\]`)

// general returns a path as a policy has it: other items of the same list are changed by
// the next intent.
func general(path string) string { return index.ReplaceAllString(path, "[*]") }

// Changes of an audit log. The cause of a child's change are the fields of the
// parent that changed at the generation in the child's trace.
func (l *Learner) Changes(changes []Change) {
	for i := range changes {
		c := &changes[i]
		if c.New != nil {
			l.settled[causeKey{kind: c.Kind.GroupKind(), name: c.New.GetName()}] = parent.Sum(c.New, parent.RoleNone).SettledGeneration()
		}
		if c.Status || c.New == nil && c.Operation != admission.Delete {
			continue
		}
		if c.Operation == admission.Delete && l.deletion(c) {
			continue
		}
		details := detailsOf(c, change.BuiltinLists(c.Kind))
		l.cause(c, details)
		l.effect(c, details)
	}
}

// deletion records the deletion of an object, and whether its parent was being deleted (KR-06-32).
func (l *Learner) deletion(c *Change) bool {
	if c.OldObject == nil {
		return false
	}
	l.doomed[causeKey{kind: c.Kind.GroupKind(), name: c.OldObject.GetName()}] = true
	owner := metav1.GetControllerOf(c.OldObject)
	if owner == nil {
		return false
	}
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	if !l.doomed[causeKey{kind: gvk.GroupKind(), name: owner.Name}] {
		return false
	}
	kind := l.kind(gvk)
	if kind.deleted == nil {
		kind.deleted = map[schema.GroupVersionKind]bool{}
	}
	kind.deleted[c.Kind] = kind.deleted[c.Kind] || reachesOutside(c, nil)
	return true
}

// reachesOutside reports whether a recorded change was one of an external resource.
func reachesOutside(c *Change, details []change.Detail) bool {
	o := c.New
	if c.Operation == admission.Delete {
		o = c.OldObject
	}
	if !verb.IsForeign(c.Kind.GroupKind()) && roleOf(o) != parent.RoleManaged {
		return false
	}
	switch c.Operation {
	case admission.Create:
		return true
	case admission.Delete:
		m := parent.Sum(o, roleOf(o))
		return o.GetAnnotations()[v1alpha1.AnnotationKeyDeletion] != v1alpha1.DeletionOrphan && m.DeletionPolicy != "Orphan" &&
			(m.ManagementPolicies == nil || mask.Gives(m.ManagementPolicies, v1alpha1.VerbDelete))
	}
	return slices.ContainsFunc(details, func(d change.Detail) bool {
		return !change.Under(d.Path, "spec."+mask.FieldManagementPolicies) && !change.Under(d.Path, "spec.deletionPolicy")
	})
}

// cause records a change as a possible cause of others.
func (l *Learner) cause(c *Change, details []change.Detail) {
	if c.New == nil || len(details) == 0 {
		return
	}
	own := trace.Of(c.New.GetAnnotations()).Own()
	if own == nil || c.OldObject != nil && c.OldObject.GetAnnotations()[v1alpha1.AnnotationKeyTrace] == c.New.GetAnnotations()[v1alpha1.AnnotationKeyTrace] {
		return // a self write causes no changes
	}
	k := causeKey{c.Kind.GroupKind(), c.New.GetName(), own.Generation}
	for _, d := range details {
		l.causes[k] = append(l.causes[k], general(d.Path))
	}
}

// effect records a change as the effect of one of its parent.
func (l *Learner) effect(c *Change, details []change.Detail) {
	o := cmp.Or(c.New, c.OldObject)
	hops := trace.Of(o.GetAnnotations())
	if len(hops) < 2 || hops[len(hops)-1].User != c.User.Name {
		return
	}
	if c.Operation == admission.Update && len(details) == 0 {
		return
	}
	above := hops[len(hops)-2]
	gvk := schema.FromAPIVersionAndKind(above.APIVersion, above.Kind)
	settled, ok := l.settled[causeKey{kind: gvk.GroupKind(), name: above.Name}]
	if ok && settled >= above.Generation || c.Operation == admission.Create && settled <= 0 {
		return // a parent that never settled may create all children: the policy has no section initializing
	}
	triggers := l.causes[causeKey{gvk.GroupKind(), above.Name, above.Generation}]
	if len(triggers) == 0 {
		return // its cause was not recorded
	}
	kind := l.kind(gvk)
	kind.subject(above.User, len(hops) == 2)
	for _, t := range triggers {
		kind.observe(t, c, details)
	}
}

// kind returns what is recorded of a kind of parents, which is created where it is
// missing. The version is that of the first change.
func (l *Learner) kind(gvk schema.GroupVersionKind) *learned {
	k := l.kinds[gvk.GroupKind()]
	if k == nil {
		k = &learned{gvk: gvk, subjects: map[v1alpha1.PolicySubject]bool{}, rules: map[string]map[schema.GroupVersionKind]*observed{}}
		l.kinds[gvk.GroupKind()] = k
	}
	return k
}

// subject of the policy: a user who changed the parent with effects. initiates: at
// least one of its changes started a chain, so that the policy has to permit that. The
// same user may be recorded with and without it. An unknown user, which is "", cannot
// be named and is left out.
func (k *learned) subject(user string, initiates bool) {
	if user == "" {
		return
	}
	s := v1alpha1.Subject{Kind: v1alpha1.SubjectUser, Name: user}
	if rest, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		if namespace, name, ok := strings.Cut(rest, ":"); ok {
			s = v1alpha1.Subject{Kind: v1alpha1.SubjectServiceAccount, Namespace: namespace, Name: name}
		}
	}
	k.subjects[v1alpha1.PolicySubject{Subject: s, MayInitiate: initiates}] = true
}

// at returns what is recorded of the children of a kind that change with a trigger,
// which is created where it is missing.
func (k *learned) at(trigger string, child schema.GroupVersionKind) *observed {
	if k.rules[trigger] == nil {
		k.rules[trigger] = map[schema.GroupVersionKind]*observed{}
	}
	o := k.rules[trigger][child]
	if o == nil {
		o = &observed{verbs: map[string]bool{}, mutations: map[string]map[v1alpha1.FieldVerb]bool{}, external: map[v1alpha1.Verb]bool{}}
		k.rules[trigger][child] = o
	}
	return o
}

// observe a change of a child that a trigger caused. Which of several fields of the
// parent caused it is unknown: it is recorded for each of them.
func (k *learned) observe(trigger string, c *Change, details []change.Detail) {
	o := k.at(trigger, c.Kind)
	verbs := map[admission.Operation]v1alpha1.Verb{admission.Create: v1alpha1.VerbCreate, admission.Delete: v1alpha1.VerbDelete,
		admission.Update: v1alpha1.VerbUpdate}
	if reachesOutside(c, details) {
		o.external[verbs[c.Operation]] = true
	}
	if c.Operation != admission.Update {
		o.verbs[string(verbs[c.Operation])] = true
		return
	}
	for _, d := range details {
		o.mutate(general(d.Path), v1alpha1.FieldVerb(d.Verb))
	}
}

// mutate records a kind of change of one field. It needs the verb Update.
func (o *observed) mutate(path string, verb v1alpha1.FieldVerb) {
	o.verbs["Update"] = true
	if o.mutations[path] == nil {
		o.mutations[path] = map[v1alpha1.FieldVerb]bool{}
	}
	o.mutations[path][verb] = true
}

// Drift as it was reported in log mode. A report does not contain the field of
// the parent that caused it: the trigger of the rule is the whole spec, to be
// narrowed by hand.
func (l *Learner) Drift(d v1alpha1.DriftSpec) {
	if d.Relation != v1alpha1.RelationControllerChild {
		return
	}
	kind := l.kind(schema.FromAPIVersionAndKind(d.Parent.APIVersion, d.Parent.Kind))
	o := kind.at("spec", schema.FromAPIVersionAndKind(d.Child.APIVersion, d.Child.Kind))
	switch d.Operation {
	case string(admission.Create):
		o.verbs["Create"] = true
	case string(admission.Delete):
		o.verbs["Delete"] = true
	default:
		for _, f := range d.Difference {
			o.mutate(general(f.Path), v1alpha1.FieldVerb(f.Verb))
		}
	}
}

// Policies that allow what was recorded, one for each kind of parents, in the order
// of group and kind (KR-10-10, KR-06-32).
func (l *Learner) Policies() []v1alpha1.AllowancePolicy {
	kinds := slices.SortedFunc(maps.Keys(l.kinds), func(a, b schema.GroupKind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind))
	})
	out := make([]v1alpha1.AllowancePolicy, 0, len(kinds))
	for _, gk := range kinds {
		out = append(out, l.kinds[gk].policy())
	}
	return out
}

// policy that allows what is recorded, with sorted rules and subjects: the same log
// gives the same bytes, which can be compared in a review. It has the name of the kind.
func (k *learned) policy() v1alpha1.AllowancePolicy {
	p := v1alpha1.AllowancePolicy{}
	p.APIVersion, p.Kind = v1alpha1.GroupVersion.String(), "AllowancePolicy"
	p.Name = strings.ToLower(strings.TrimSuffix(k.gvk.Kind+"."+k.gvk.Group, "."))
	p.Spec.Target = target(k.gvk)
	p.Spec.Subjects = slices.SortedFunc(maps.Keys(k.subjects), func(a, b v1alpha1.PolicySubject) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
			cmp.Compare(strconv.FormatBool(a.MayInitiate), strconv.FormatBool(b.MayInitiate)))
	})
	p.Spec.Deleting = k.deleting()
	for _, trigger := range slices.Sorted(maps.Keys(k.rules)) {
		r := v1alpha1.AllowanceRule{Trigger: trigger}
		children := slices.SortedFunc(maps.Keys(k.rules[trigger]), func(a, b schema.GroupVersionKind) int {
			return strings.Compare(a.String(), b.String())
		})
		for _, child := range children {
			r.Allow = append(r.Allow, k.rules[trigger][child].allowed(child)...)
		}
		p.Spec.Rules = append(p.Spec.Rules, r)
	}
	return p
}

// target of a policy or of an allowed change.
func target(gvk schema.GroupVersionKind) *v1alpha1.PolicyTarget {
	return &v1alpha1.PolicyTarget{APIGroup: gvk.Group, APIVersion: gvk.Version, Kind: gvk.Kind}
}

// allowed change of a child, with sorted verbs and mutations. No mutations mean every
// field, so that a policy must not have the verb Update without any.
func (o *observed) allowed(child schema.GroupVersionKind) []v1alpha1.AllowedChange {
	a := v1alpha1.AllowedChange{Target: target(child), Relation: v1alpha1.RelationControllerChild, Verbs: slices.Sorted(maps.Keys(o.verbs))}
	for _, path := range slices.Sorted(maps.Keys(o.mutations)) {
		a.Mutations = append(a.Mutations, v1alpha1.AllowedMutation{JSONPath: path, Verbs: slices.Sorted(maps.Keys(o.mutations[path]))})
	}
	out := []v1alpha1.AllowedChange{a}
	if len(o.external) > 0 {
		e := v1alpha1.AllowedChange{Target: target(child), Relation: v1alpha1.RelationExternal}
		for _, v := range slices.Sorted(maps.Keys(o.external)) {
			e.Verbs = append(e.Verbs, string(v))
		}
		out = append(out, e)
	}
	return out
}

// deleting section of what was deleted with a parent; nil where nothing was. All children may be deleted, as without the
// section, and the external resources of the kinds that were.
func (k *learned) deleting() *v1alpha1.DeletingRule {
	if len(k.deleted) == 0 {
		return nil
	}
	d := &v1alpha1.DeletingRule{Allow: []v1alpha1.AllowedChange{{Relation: v1alpha1.RelationControllerChild, Verbs: []string{allowance.VerbAll}}}}
	for _, child := range slices.SortedFunc(maps.Keys(k.deleted), func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }) {
		if k.deleted[child] {
			d.Allow = append(d.Allow, v1alpha1.AllowedChange{Target: target(child), Relation: v1alpha1.RelationExternal,
				Verbs: []string{string(v1alpha1.VerbDelete)}})
		}
	}
	return d
}
