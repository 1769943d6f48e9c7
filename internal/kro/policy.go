package kro

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Limits of what is derived: the first three are those of the CRD of AllowancePolicies.
const (
	maxRules     = 64
	maxAllow     = 32
	maxMutations = 64
	maxPolicies  = 16
	maxGrants    = 1 << 20
	// maxLines of a graph that a rule names.
	maxLines = 64
)

// DefaultServiceAccount is the ServiceAccount of kro where another one is not given.
var DefaultServiceAccount = v1alpha1.Subject{Kind: v1alpha1.SubjectServiceAccount, Namespace: "kro-system", Name: "kro-controller"}

// Derived is what was derived from a graph.
type Derived struct {
	// Policies are named after the graph: NAME-policy, and NAME-policy-2 and so on where one cannot have all rules.
	Policies []v1alpha1.AllowancePolicy
	// Unknown are the lines of the graph that depend on something that no rule can explain, each with the reason.
	Unknown []string
}

// Derive returns the AllowancePolicies of a ResourceGraphDefinition. kro is the user that carries out graphs. It returns an error if kro
// refuses the graph, or if the graph is too large.
func Derive(definition *krov1alpha1.ResourceGraphDefinition, kro v1alpha1.Subject) (*Derived, error) {
	if definition.Name == "" {
		return nil, errors.New("metadata.name is required")
	}
	g, err := parse(definition)
	if err != nil {
		return nil, err
	}
	d := &deriver{causes: causes{graph: g, ofNode: map[string]cause{}, ofPath: map[string]cause{}, absent: map[string][]owned{}},
		rules: map[string]*rule{}, known: map[string]bool{}}
	for _, n := range g.nodes {
		if !n.external {
			d.fields(n)
		}
	}
	for _, n := range g.nodes {
		if !n.external {
			d.objects(n)
		}
	}
	out, err := d.policies(kro)
	if err != nil {
		return nil, err
	}
	if more := len(d.unknown) - maxUnknown; more > 0 {
		d.unknown = append(d.unknown[:maxUnknown], fmt.Sprintf("and %d more lines", more))
	}
	return &Derived{Policies: out, Unknown: d.unknown}, nil
}

// deriver collects rules by their triggers.
type deriver struct {
	causes
	order   []*rule
	rules   map[string]*rule
	unknown []string
	known   map[string]bool
	grants  int
}

// maxUnknown bounds the lines that no rule explains, beyond which their number is reported.
const maxUnknown = 512

// unexplained notes a line that no rule explains, with the reason.
func (d *deriver) unexplained(line, why string) {
	text := line + ": " + why
	if !d.known[text] {
		d.known[text] = true
		d.unknown = append(d.unknown, text)
	}
}

// rule is what a field of the instance permits.
type rule struct {
	trigger string
	// lines are the first ones, and more how many there are beside them.
	lines   []string
	more    int
	permits []*permit
	byKey   map[permitKey]*permit
}

// permitKey is what permissions are collected by: the first verb distinguishes the lists of verbs.
type permitKey struct {
	target   schema.GroupVersionKind
	relation v1alpha1.Relation
	verb     string
}

// permit for objects of a kind: their creation and deletion, or the mutation of fields.
type permit struct {
	target    schema.GroupVersionKind
	relation  v1alpha1.Relation
	verbs     []string
	mutations []v1alpha1.AllowedMutation
	byPath    map[string]int
}

var (
	updates    = []string{allowance.VerbUpdate}
	identities = []string{allowance.VerbCreate, allowance.VerbDelete}
)

// fields adds what permits the mutation of fields of a resource.
func (d *deriver) fields(n *node) {
	for _, f := range n.fields {
		if outsideButName(f.path) {
			continue
		}
		of := d.of(n, f)
		d.report(f, of)
		mutations, err := mutationsOf(d.graph, n, f)
		if err != nil {
			d.unexplained(f.line, err.Error())
			continue
		}
		for _, t := range of.triggers {
			d.permit(t, n, v1alpha1.RelationControllerChild, updates, f.line, mutations...)
			if n.managed && !change.PatternOf(f.path).Outside() {
				d.permit(t, n, v1alpha1.RelationExternal, updates, f.line)
			}
		}
	}
}

// objects adds what permits the creation and deletion of objects of a resource.
func (d *deriver) objects(n *node) {
	for _, o := range d.existence(n) {
		of := d.of(o.of, o.field)
		d.report(o.field, of)
		for _, t := range of.triggers {
			d.permit(t, n, v1alpha1.RelationControllerChild, identities, o.line)
		}
	}
	if n.managed && len(d.existence(n)) > 0 {
		d.unexplained(n.at, "the deletion of its external resource is for a person to allow: add relation External with verb Delete to the rules that may")
	}
}

func (d *deriver) report(f field, of cause) {
	for _, why := range of.unknown {
		d.unexplained(f.line, why)
	}
}

// outsideButName reports whether a field is no desired state, so that its change needs no permission; the name of an object is one of an
// example in which it is permitted, and has no effect.
func outsideButName(path []change.Segment) bool {
	return change.PatternOf(path).Outside() && change.Text(path) != "metadata.name"
}

// mutationsOf returns what permits a change of the value of a field.
func mutationsOf(g *graph, n *node, f field) ([]v1alpha1.AllowedMutation, error) {
	var text strings.Builder
	for i, s := range f.path {
		switch {
		case s.Item:
			text.WriteString("[*]")
		case s.Key == "*":
			return nil, errors.New(`the key "*" would permit every field`)
		case strings.ContainsAny(s.Key, ".[]'\""):
			fmt.Fprintf(&text, "[%s]", s.Key)
		default:
			if i > 0 {
				text.WriteByte('.')
			}
			text.WriteString(s.Key)
		}
	}
	path := text.String()
	if _, err := change.ParsePattern(path); err != nil || len(path) > maxLine {
		return nil, errors.New("no policy can have its path")
	}
	one := v1alpha1.AllowedMutation{JSONPath: path}
	single := f.single && f.reads[0].variable == instanceVariable && g.scalar(f.reads[0].path) && storesZero(n.kind, f.path)
	if f.text || single {
		one.Verbs = []v1alpha1.FieldVerb{v1alpha1.FieldMutate}
	}
	out := []v1alpha1.AllowedMutation{one}
	if item := itemOf(n.kind, f.path); item > 0 { // with another key it is another item
		whole := path[:strings.LastIndexByte(path, ']')+1]
		out = append(out, v1alpha1.AllowedMutation{JSONPath: whole, Verbs: []v1alpha1.FieldVerb{v1alpha1.FieldInsert, v1alpha1.FieldDelete}})
	}
	return out, nil
}

// itemOf returns the length of the path of the item that a field identifies within its list; 0 where it identifies none.
func itemOf(kind schema.GroupVersionKind, path []change.Segment) int {
	lists, i := change.BuiltinLists(kind), len(path)-2
	if lists == nil || i < 1 || !path[i].Item || path[i+1].Item || !slices.Contains(lists.ListType(path[:i]).Keys, path[i+1].Key) {
		return 0
	}
	return i + 1
}

// permit adds a permission to the rule of a trigger. line is where the graph has it.
func (d *deriver) permit(trigger string, n *node, relation v1alpha1.Relation, verbs []string, line string, mutations ...v1alpha1.AllowedMutation) {
	d.grants++
	if d.grants > maxGrants {
		return
	}
	r := d.rules[trigger]
	if r == nil {
		r = &rule{trigger: trigger, byKey: map[permitKey]*permit{}}
		d.rules[trigger] = r
		d.order = append(d.order, r)
	}
	switch {
	case slices.Contains(r.lines, line):
	case len(r.lines) < maxLines-1:
		r.lines = append(r.lines, line)
	default:
		r.more++
	}
	p := r.permit(n.kind, relation, verbs)
	for _, m := range mutations {
		j, known := p.byPath[m.JSONPath]
		switch {
		case !known:
			p.byPath[m.JSONPath] = len(p.mutations)
			p.mutations = append(p.mutations, m)
		case len(m.Verbs) == 0 || len(p.mutations[j].Verbs) == 0:
			p.mutations[j].Verbs = nil
		default:
			all := append(slices.Clone(p.mutations[j].Verbs), m.Verbs...)
			slices.Sort(all)
			p.mutations[j].Verbs = slices.Compact(all)
		}
	}
}

// permit returns the permission of a rule, which may be new.
func (r *rule) permit(target schema.GroupVersionKind, relation v1alpha1.Relation, verbs []string) *permit {
	key := permitKey{target, relation, verbs[0]}
	p := r.byKey[key]
	if p == nil {
		p = &permit{target: target, relation: relation, verbs: verbs, byPath: map[string]int{}}
		r.permits, r.byKey[key] = append(r.permits, p), p
	}
	return p
}

// policies with all rules, as many as are needed.
func (d *deriver) policies(kro v1alpha1.Subject) ([]v1alpha1.AllowancePolicy, error) {
	var rules []v1alpha1.AllowanceRule
	for _, r := range d.order {
		rules = append(rules, r.split()...)
	}
	chunks := slices.Collect(slices.Chunk(rules, maxRules))
	switch {
	case d.large || d.grants > maxGrants || len(chunks) > maxPolicies:
		return nil, fmt.Errorf("it is too large: at most %d rules are derived from a graph; write policies for a part of its fields yourself", maxRules*maxPolicies)
	case len(chunks) == 0:
		chunks = [][]v1alpha1.AllowanceRule{nil} // what a change of the instance permits: nothing
	}
	var out []v1alpha1.AllowancePolicy
	for i, chunk := range chunks {
		p := v1alpha1.AllowancePolicy{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AllowancePolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: PolicyName(d.name, i), Annotations: map[string]string{
				v1alpha1.AnnotationKeyDerivedFrom: d.name}},
			Spec: v1alpha1.AllowancePolicySpec{
				Target: &v1alpha1.PolicyTarget{APIGroup: d.instance.Group, APIVersion: d.instance.Version, Kind: d.instance.Kind},
				Subjects: []v1alpha1.PolicySubject{{Subject: kro},
					{Subject: v1alpha1.Subject{Kind: v1alpha1.SubjectGroup, Name: "system:authenticated"}, MayInitiate: true}},
				Rules: chunk,
			},
		}
		if i == 0 {
			p.Spec.Initializing = &v1alpha1.InitializingRule{Allow: []v1alpha1.AllowedChange{{Relation: v1alpha1.RelationControllerChild,
				Verbs: []string{allowance.VerbCreate}, Mutations: []v1alpha1.AllowedMutation{{JSONPath: "*",
					Verbs: []v1alpha1.FieldVerb{v1alpha1.FieldInsert, v1alpha1.FieldMutate}}}}}}
		}
		out = append(out, p)
	}
	return out, nil
}

// PolicyName returns the name of a policy of a graph, counted from 0.
func PolicyName(graph string, i int) string {
	if i == 0 {
		return graph + "-policy"
	}
	return fmt.Sprintf("%s-policy-%d", graph, i+1)
}

// split returns the rule in as many parts as the limits of a policy demand: creations and deletions last.
func (r *rule) split() []v1alpha1.AllowanceRule {
	slices.SortStableFunc(r.permits, func(a, b *permit) int { return cmp.Compare(len(a.verbs), len(b.verbs)) })
	var allow []v1alpha1.AllowedChange
	for _, p := range r.permits {
		one := v1alpha1.AllowedChange{Relation: p.relation, Verbs: p.verbs,
			Target: &v1alpha1.PolicyTarget{APIGroup: p.target.Group, APIVersion: p.target.Version, Kind: p.target.Kind}}
		if len(p.mutations) == 0 {
			allow = append(allow, one)
		}
		for part := range slices.Chunk(p.mutations, maxMutations) {
			one.Mutations = part
			allow = append(allow, one)
		}
	}
	lines := r.lines
	if r.more > 0 {
		lines = append(slices.Clone(lines), fmt.Sprintf("and %d more", r.more))
	}
	var out []v1alpha1.AllowanceRule
	for part := range slices.Chunk(allow, maxAllow) {
		out = append(out, v1alpha1.AllowanceRule{Trigger: r.trigger, DerivedFrom: lines, Allow: part})
	}
	return out
}
