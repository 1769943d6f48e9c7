package external

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
)

// Rule says which fields of a kind do not count as external drift: those that
// the provider reports in another form, or that something else manages.
type Rule struct {
	// Kind, with "*" for any kind, or any group.
	Kind schema.GroupKind
	// Paths below spec.forProvider; [*] stands for any index or key, and a path
	// covers what lies below it.
	Paths []string
}

// ParseRule reads KIND.GROUP:PATH, as in
// Database.cloud.example.org:spec.forProvider.tags[*]; *:PATH is about all kinds.
func ParseRule(text string) (Rule, error) {
	kind, path, ok := strings.Cut(text, ":")
	if !ok || kind == "" {
		return Rule{}, fmt.Errorf("%q must be KIND.GROUP:PATH, as in Database.cloud.example.org:spec.forProvider.tags", text)
	}
	r := Rule{Kind: schema.ParseGroupKind(kind), Paths: []string{path}}
	if kind == "*" {
		r.Kind.Group = "*"
	}
	return r, r.Validate()
}

// Validate that the paths can match anything.
func (r Rule) Validate() error {
	for _, p := range r.Paths {
		if !change.Under(p, forProvider) {
			return fmt.Errorf("path %q must be %s or lie below it", p, forProvider)
		}
	}
	return nil
}

func (r Rule) about(k schema.GroupKind) bool {
	return (r.Kind.Kind == "*" || r.Kind.Kind == k.Kind) && (r.Kind.Group == "*" || r.Kind.Group == k.Group)
}

// Rules of all sources: flags, policies. The zero value and nil ignore nothing.
// Safe for concurrent use.
type Rules struct {
	mu      sync.RWMutex
	sources map[string][]Rule
}

// Set the rules of a source, replacing those it had; none removes it. It reports
// whether anything changed, after which all managed resources are to be looked
// at again. Rules that do not validate are an error, and change nothing.
func (r *Rules) Set(source string, rules ...Rule) (bool, error) {
	for _, rule := range rules {
		if err := rule.Validate(); err != nil {
			return false, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if reflect.DeepEqual(r.sources[source], rules) || len(rules) == 0 && len(r.sources[source]) == 0 {
		return false, nil
	}
	next := maps.Clone(r.sources)
	if next == nil {
		next = map[string][]Rule{}
	}
	next[source] = slices.Clone(rules)
	if len(rules) == 0 {
		delete(next, source)
	}
	r.sources = next
	return true, nil
}

// Filter out the differences that are to be ignored for a kind. The input is not
// modified.
func (r *Rules) Filter(kind schema.GroupKind, differences []change.Change) []change.Change {
	if r == nil || len(differences) == 0 {
		return differences
	}
	r.mu.RLock()
	sources := r.sources // replaced, never modified
	r.mu.RUnlock()
	if len(sources) == 0 {
		return differences
	}
	var out []change.Change
	for _, d := range differences {
		if !ignored(sources, kind, segments(d.Path)) {
			out = append(out, d)
		}
	}
	return out
}

func ignored(sources map[string][]Rule, kind schema.GroupKind, path []string) bool {
	for _, rules := range sources {
		for _, rule := range rules {
			if rule.about(kind) && slices.ContainsFunc(rule.Paths, func(p string) bool { return covers(segments(p), path) }) {
				return true
			}
		}
	}
	return false
}

func covers(pattern, path []string) bool {
	if len(pattern) > len(path) {
		return false
	}
	for i, p := range pattern {
		if p != "*" && p != path[i] {
			return false
		}
	}
	return true
}

// segments of a field path: a.b[2][c.d/e] is a, b, 2, c.d/e.
func segments(path string) []string {
	var out []string
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			key, rest, _ := strings.Cut(path[1:], "]")
			out, path = append(out, key), rest
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out, path = append(out, path[:end]), path[end:]
		}
	}
	return out
}
