package channel

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// Group is what is pending for one cause; its Drifts are in the order of the list.
type Group struct {
	Key, Title string
	Drifts     []*v1alpha1.Drift
}

// ByCause groups Drifts, the groups in the order of their first.
func ByCause(list []v1alpha1.Drift) []*Group {
	var out []*Group
	at := map[string]*Group{}
	for i := range list {
		d := &list[i]
		key := CauseKey(d)
		g := at[key]
		if g == nil {
			g = &Group{Key: key, Title: causeTitle(d)}
			at[key] = g
			out = append(out, g)
		}
		g.Drifts = append(g.Drifts, d)
	}
	return out
}

// Oldest returns the oldest of the group.
func (g *Group) Oldest() *v1alpha1.Drift {
	out := g.Drifts[0]
	for _, d := range g.Drifts {
		if Since(d).Time.Before(Since(out).Time) {
			out = d
		}
	}
	return out
}

// Distinct values of a property of the group's Drifts, in their order.
func (g *Group) Distinct(of func(*v1alpha1.Drift) string) (out []string) {
	have := map[string]bool{}
	for _, d := range g.Drifts {
		if v := of(d); !have[v] {
			have[v] = true
			out = append(out, v)
		}
	}
	return out
}

// Namespaces returns the namespaces of the group.
func (g *Group) Namespaces() []string {
	return g.Distinct(func(d *v1alpha1.Drift) string { return d.Namespace })
}

// Objects returns how many objects would change.
func (g *Group) Objects() int {
	return len(g.Distinct(func(d *v1alpha1.Drift) string {
		c := d.Spec.Child
		if c.Name == "" { // its name is generated when it is created
			return d.Namespace + "/" + d.Name
		}
		return strings.Join([]string{c.APIVersion, c.Kind, c.Namespace, c.Name}, "/")
	}))
}

// authors returns the lines of the causes whose authors are known, once each.
func (g *Group) authors() (lines []string) {
	for _, d := range g.Drifts {
		s := &d.Spec
		if slices.ContainsFunc(s.Causes, func(c v1alpha1.HopCause) bool { return AuthorOf(c) != "" }) {
			lines = append(lines, CauseLines(s.Causes)...)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// FieldCount is a change of one field, and of how many objects.
type FieldCount struct {
	Text  string
	Count int
}

// fields returns the fields that change, the most frequent first.
func (g *Group) fields() (out []FieldCount) {
	at := map[string]int{}
	for _, d := range g.Drifts {
		texts := lists.Map(d.Spec.Difference, func(f v1alpha1.FieldDifference) string { return Clip(Field(f)) })
		if len(texts) == 0 {
			texts = []string{cmp.Or(operations[d.Spec.Operation], "change") + " " + d.Spec.Child.Kind}
		}
		for _, text := range texts {
			n, ok := at[text]
			if !ok {
				n = len(out)
				at[text] = n
				out = append(out, FieldCount{Text: text})
			}
			out[n].Count++
		}
	}
	slices.SortStableFunc(out, func(a, b FieldCount) int { return b.Count - a.Count })
	return out
}

// approve returns the command that approves the changes of a cause that are not rejected; "" where all are. args select them where they are not named by id.
func (g *Group) approve(ruling func(*v1alpha1.Drift) Ruling, args string) string {
	open := &Group{Key: g.Key}
	for _, d := range g.Drifts {
		if ruling(d).Rejected == nil {
			open.Drifts = append(open.Drifts, d)
		}
	}
	if len(open.Drifts) == 0 {
		return ""
	}
	if spaces := open.Namespaces(); len(open.Drifts) <= maxIDs && len(spaces) == 1 {
		return ApproveCommand(spaces[0], open.Distinct(func(d *v1alpha1.Drift) string { return d.Name })...)
	}
	return "kubectl kausality approve" + args + " --cause " + g.Key
}
