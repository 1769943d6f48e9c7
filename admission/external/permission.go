package external

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Permission is an entry of the allowances annotation with relation External. It declares what an external system may
// do, and which change caused that (KR-06-06).
type Permission struct {
	// Verbs of any system. A Permission without verbs permits nothing.
	Verbs []string
	// Target restricts it to targets with these values; empty means any. Values
	// may hold "*" for any text.
	Target map[string]string
	// Generation of the carrier that caused it; 0 where it is unknown.
	Generation int64
	// Initiator who started the chain; empty where unknown.
	Initiator string
	// Origin is the first hop of its trace, as kind/name; empty where unknown.
	Origin string
}

// ParsePermissions reads the External entries of an allowances list, JSON or YAML, in the current form and in the
// older one, where verbs are in mutations or mutation. Other entries are ignored. An entry that cannot be read is an
// error, so that it permits nothing.
func ParsePermissions(value string) ([]Permission, error) {
	var entries []struct {
		Relation       v1alpha1.Relation `json:"relation"`
		Verbs          []string          `json:"verbs"`
		Mutations      []json.RawMessage `json:"mutations"`
		Mutation       string            `json:"mutation"`
		ExternalTarget map[string]string `json:"externalTarget"`
		Generation     int64             `json:"generation"`
		Initiator      string            `json:"initiator"`
		Trace          []struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"trace"`
	}
	if err := annotation.Unmarshal(value, annotation.MaxSystem, &entries); err != nil {
		return nil, fmt.Errorf("cannot parse allowances: %w", err)
	}
	var out []Permission
	for i, e := range entries {
		if e.Relation != v1alpha1.RelationExternal {
			continue
		}
		p := Permission{Verbs: e.Verbs, Target: e.ExternalTarget, Generation: e.Generation, Initiator: e.Initiator}
		for _, m := range e.Mutations {
			var name string
			if err := json.Unmarshal(m, &name); err != nil {
				return nil, fmt.Errorf("cannot parse allowances: entry %d: mutations of relation External must be verbs", i)
			}
			p.Verbs = append(p.Verbs, name)
		}
		if e.Mutation != "" {
			p.Verbs = append(p.Verbs, e.Mutation)
		}
		if len(e.Trace) > 0 {
			p.Origin = e.Trace[0].Kind + "/" + e.Trace[0].Name
		}
		out = append(out, p)
	}
	return out, nil
}

// Unconsumed returns the permissions that are not consumed by a carrier that settled at a generation: an allowance is
// used once its carrier settles at or past its generation (KR-06-08). Those without a generation stay.
func Unconsumed(permissions []Permission, settled int64) []Permission {
	return slices.DeleteFunc(slices.Clone(permissions), func(p Permission) bool { return p.Generation > 0 && p.Generation <= settled })
}

// Permits reports whether a permission holds a verb of Crossplane for a target of a system. Every key of the
// permission's target must be one that the target has (KR-08-40).
func (p Permission) Permits(s verb.System, wanted v1alpha1.Verb, target map[string]string) bool {
	if !slices.ContainsFunc(p.Verbs, func(v string) bool { return slices.Contains(s.Means(v), wanted) }) {
		return false
	}
	for key, want := range p.Target {
		if have, known := target[key]; !known || !glob(want, have) {
			return false
		}
	}
	return true
}

// UnknownKeys returns the keys in the targets of permissions that no target of a system has, sorted. Such a
// permission never fits.
func UnknownKeys(permissions []Permission, known []string) []string {
	unknown := map[string]bool{}
	for _, p := range permissions {
		for key := range p.Target {
			if !slices.Contains(known, key) {
				unknown[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(unknown))
}

// glob reports whether a text matches a pattern in which "*" matches any text.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}
