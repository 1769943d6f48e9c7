package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// causeExternal is the key of all external drift: what other actors changed in external systems.
const causeExternal = "external"

// causeKey names the cause of a pending change on a command line (KR-12-20): the name of a
// Composition revision, KIND/NAME of another single cause, external for external drift, and
// a digest of 8 hex digits where there is no such name.
func causeKey(d *v1alpha1.Drift) string {
	if isExternalDrift(d) {
		return causeExternal
	}
	if len(d.Spec.Causes) == 1 {
		c, key := d.Spec.Causes[0], d.Spec.Causes[0].Name
		if c.Kind != v1alpha1.CauseComposition {
			key = strings.ToLower(string(c.Kind)) + "/" + c.Name
		}
		if plainKey.MatchString(key) && key != causeExternal {
			return key
		}
	}
	text := []string{d.Spec.Cause}
	if len(d.Spec.Causes) > 0 {
		text = nil
	}
	for _, c := range d.Spec.Causes {
		text = append(text, string(c.Kind)+"/"+c.Name)
	}
	slices.Sort(text)
	sum := sha256.Sum256([]byte(strings.Join(text, "\n")))
	return hex.EncodeToString(sum[:4])
}

// plainKey is a key that no shell interprets and that is short enough to be typed.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,79}$`)

// causeTitle is what a cause is, as the beginning of a sentence.
func causeTitle(d *v1alpha1.Drift) string {
	if isExternalDrift(d) {
		return "external drift: external resources differ from what Crossplane wants"
	}
	names := make([]string, 0, len(d.Spec.Causes))
	for _, c := range d.Spec.Causes {
		names = append(names, cmp.Or(causeAs[c.Kind], string(c.Kind))+" "+c.Name)
	}
	return cmp.Or(strings.Join(names, " or "), d.Spec.Cause, "unknown cause")
}

// isExternal reports whether a pending change is one of an external resource: external
// drift, or a deletion.
func isExternal(d *v1alpha1.Drift) bool { return d.Spec.Relation == v1alpha1.RelationExternal }

// isExternalDrift reports whether an external resource was changed by another actor.
func isExternalDrift(d *v1alpha1.Drift) bool {
	return isExternal(d) && d.Spec.Operation != string(admission.Delete)
}

// withCause are the pending changes of one cause. It is an error where there are
// changes, and none of that cause.
func withCause(list []v1alpha1.Drift, key string) ([]v1alpha1.Drift, error) {
	if key == "" {
		return list, nil
	}
	var out []v1alpha1.Drift
	var keys []string
	for i := range list {
		have := causeKey(&list[i])
		if have == key {
			out = append(out, list[i])
		}
		keys = append(keys, have)
	}
	if len(out) > 0 {
		return out, nil
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 {
		return nil, errors.New("nothing waits for approval there, of any cause")
	}
	return nil, fmt.Errorf("no pending change has cause %q%s", key, known(key, keys))
}

// maxKnown bounds the names that an error lists.
const maxKnown = 5

// known names for one that is unknown, as the end of a sentence: the nearest one, or some
// of them.
func known(name string, names []string) string {
	if near := suggest.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(names) > maxKnown {
		names = append(slices.Clone(names[:maxKnown]), "…")
	}
	return "; there are: " + strings.Join(names, ", ")
}

// causeGroup is what is pending for one cause; its Drifts are in the order of the list.
type causeGroup struct {
	key, title string
	drifts     []v1alpha1.Drift
}

// byCause groups Drifts, the groups in the order of their first.
func byCause(list []v1alpha1.Drift) []*causeGroup {
	var out []*causeGroup
	at := map[string]*causeGroup{}
	for i := range list {
		d := &list[i]
		key := causeKey(d)
		g := at[key]
		if g == nil {
			g = &causeGroup{key: key, title: causeTitle(d)}
			at[key] = g
			out = append(out, g)
		}
		g.drifts = append(g.drifts, *d)
	}
	return out
}

// oldest of the group.
func (g *causeGroup) oldest() *v1alpha1.Drift {
	out := &g.drifts[0]
	for i := range g.drifts {
		if since := inspect.Since(&g.drifts[i]); since.Time.Before(inspect.Since(out).Time) {
			out = &g.drifts[i]
		}
	}
	return out
}

// distinct values of a property of the group's Drifts, in their order.
func (g *causeGroup) distinct(of func(*v1alpha1.Drift) string) (out []string) {
	have := map[string]bool{}
	for i := range g.drifts {
		if v := of(&g.drifts[i]); !have[v] {
			have[v] = true
			out = append(out, v)
		}
	}
	return out
}

// namespaces of the group.
func (g *causeGroup) namespaces() []string {
	return g.distinct(func(d *v1alpha1.Drift) string { return d.Namespace })
}

// objects that would change.
func (g *causeGroup) objects() int {
	return len(g.distinct(func(d *v1alpha1.Drift) string {
		c := d.Spec.Child
		if c.Name == "" { // its name is generated when it is created
			return d.Namespace + "/" + d.Name
		}
		return strings.Join([]string{c.APIVersion, c.Kind, c.Namespace, c.Name}, "/")
	}))
}

// authors are the lines of the causes whose authors are known, once each.
func (g *causeGroup) authors() (lines []string) {
	for i := range g.drifts {
		s := &g.drifts[i].Spec
		if slices.ContainsFunc(s.Causes, func(c v1alpha1.HopCause) bool { return authorOf(c) != "" }) {
			lines = append(lines, causeLines(s.Causes)...)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// fieldCount is a change of one field, and of how many objects.
type fieldCount struct {
	text  string
	count int
}

// fields that change, the most frequent first.
func (g *causeGroup) fields() (out []fieldCount) {
	at := map[string]int{}
	for i := range g.drifts {
		d := &g.drifts[i]
		texts := []string{cmp.Or(operations[d.Spec.Operation], "change") + " " + d.Spec.Child.Kind}
		if len(d.Spec.Difference) > 0 {
			texts = nil
		}
		for _, f := range d.Spec.Difference {
			texts = append(texts, clip(field(f)))
		}
		for _, text := range texts {
			n, ok := at[text]
			if !ok {
				n = len(out)
				at[text] = n
				out = append(out, fieldCount{text: text})
			}
			out[n].count++
		}
	}
	slices.SortStableFunc(out, func(a, b fieldCount) int { return b.count - a.count })
	return out
}

// maxCell is how many characters of a change a table shows.
const maxCell = 160

// clip a text to maxCell characters.
func clip(s string) string {
	if r := []rune(s); len(r) > maxCell {
		return string(r[:maxCell]) + "…"
	}
	return s
}
