package external

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
)

// Rule declares fields of a kind with differences that are not external drift: the provider reports them in another
// form, or another system manages them. It is made by ParseRule and not modified after it.
type Rule struct {
	// kind, with "*" for any kind, or any group.
	kind schema.GroupKind
	// paths at or below spec.forProvider, or below status.atProvider; each covers what is below it.
	paths change.Index
}

// ParseRule reads KIND.GROUP:PATH, as in
// Database.cloud.example.org:spec.forProvider.tags[*]; *:PATH is about all kinds.
// The path is one of change.ParsePattern, or one that only older versions read:
// see spellings.
func ParseRule(text string) (*Rule, error) {
	kind, path, ok := strings.Cut(text, ":")
	if !ok || kind == "" {
		return nil, fmt.Errorf("%q must be KIND.GROUP:PATH, as in Database.cloud.example.org:spec.forProvider.tags", text)
	}
	if !change.Under(path, forProvider) && (!change.Under(path, atProvider) || path == atProvider) {
		return nil, fmt.Errorf("path %q must be %s, or lie below it or below %s", path, forProvider, atProvider)
	}
	r := &Rule{kind: schema.ParseGroupKind(kind)}
	if kind == "*" {
		r.kind.Group = "*"
	}
	for _, p := range spellings(path) {
		r.paths.Add(p, 1)
	}
	return r, nil
}

// spellings returns the patterns of all spellings of a path. Older versions split it at periods and brackets alone,
// refused nothing, and compared numbers as texts. Fields that they matched are still matched: rules.2.port is also an
// item of a list, rules[2].port also a key of a map, quotes may be part of a key, and a period too many is ignored.
func spellings(path string) []change.Pattern {
	var out []change.Pattern
	if p, err := change.ParsePattern(path); err == nil {
		out = append(out, p)
	}
	for _, steps := range numbersBothWays(change.SplitPath(path)) {
		out = append(out, change.PatternOf(steps))
	}
	return out
}

// numbersBothWays returns a path with each of its numbers as an index and as a
// key.
func numbersBothWays(path []change.Segment) [][]change.Segment {
	out := [][]change.Segment{nil}
	for _, s := range path {
		both := []change.Segment{s}
		if n, err := strconv.Atoi(s.Key); s.Item {
			both = append(both, change.Segment{Key: strconv.Itoa(s.Index)})
		} else if err == nil && strconv.Itoa(n) == s.Key {
			both = append(both, change.Segment{Index: n, Item: true})
		}
		var next [][]change.Segment
		for _, begun := range out {
			for _, b := range both {
				next = append(next, append(slices.Clone(begun), b))
			}
		}
		out = next
	}
	return out
}

func (r *Rule) about(k schema.GroupKind) bool {
	return (r.kind.Kind == "*" || r.kind.Kind == k.Kind) && (r.kind.Group == "*" || r.kind.Group == k.Group)
}

// Rules of one process. nil ignores nothing. They are not modified, and so safe for concurrent use: an owner with
// rules that change replaces the whole value.
type Rules []*Rule

// Filter removes the differences that are ignored for a kind. The input is not modified; it is returned where there
// are no rules.
func (r Rules) Filter(kind schema.GroupKind, differences []change.Change) []change.Change {
	if len(r) == 0 || len(differences) == 0 {
		return differences
	}
	return slices.DeleteFunc(slices.Clone(differences), func(d change.Change) bool {
		path := change.SplitPath(d.Path)
		return slices.ContainsFunc(r, func(rule *Rule) bool { return rule.about(kind) && rule.paths.Covers(path) != 0 })
	})
}
