package external

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
)

const (
	forProvider = "spec.forProvider"
	// Exists is the path of the difference between an external resource that should exist and one that does not.
	Exists = "exists"
	// Unknown is the path of a difference that no comparable field shows.
	Unknown = "unknown"
)

// SyncedMessage returns the message of an object's Synced condition where that is not True; "" where it is, and where
// there is no such condition.
func SyncedMessage(content map[string]any) string {
	status, _ := content["status"].(map[string]any)
	list, _ := status["conditions"].([]any) // a status of another shape has none
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == "Synced" && c["status"] != "True" {
			m, _ := c["message"].(string)
			return m
		}
	}
	return ""
}

// Comparable reports whether anything can be compared: both sides have a field
// in common, or the provider reports what a Plan would change. A Workspace of provider-terraform has no field in common.
func Comparable(content map[string]any) bool {
	if _, ok := Plan(content); ok {
		return true
	}
	want, a := at(content, "spec", "forProvider")
	have, b := at(content, "status", "atProvider")
	if !a || !b {
		return false
	}
	for k := range want {
		if _, ok := have[k]; ok {
			return true
		}
	}
	return false
}

// Difference returns the difference between the external resource and its desired state: from the observed values
// (Old, atProvider) to those that an approval would lead to (New, forProvider). Only fields that both have are
// compared; a field that only one side has is a default, a reference or an output. Where the provider reports what
// a Plan would change, that is the difference (KR-08-66). Where nothing can be compared, the
// fields of atProvider that are Shown are compared with those recorded when the gate had closed (KR-08-47). The
// changes are sorted by path (KR-08-21).
func Difference(content map[string]any) []change.Change {
	if changes, ok := Plan(content); ok {
		return changes
	}
	want, ok := at(content, "spec", "forProvider")
	if !ok {
		return nil
	}
	have, ok := at(content, "status", "atProvider")
	if !ok {
		return nil
	}
	c := comparer{}
	c.maps(forProvider, want, have)
	c.out = append(c.out, moved(content)...)
	slices.SortFunc(c.out, func(a, b change.Change) int { return strings.Compare(a.Path, b.Path) })
	return c.out
}

// at returns the map at a path; false where there is no map.
func at(content map[string]any, keys ...string) (map[string]any, bool) {
	for _, k := range keys {
		next, ok := content[k].(map[string]any)
		if !ok {
			return nil, false
		}
		content = next
	}
	return content, true
}

// comparer of two states. The zero value compares fields of any provider.
type comparer struct {
	out []change.Change
	// exact: both states have the same form, which the API server gave them.
	exact bool
	// complete: the observed state has all that was applied, so that a field that it
	// lacks was removed.
	complete bool
	// quantities: the fields are quantities, as of resources.limits.
	quantities bool
}

func (c *comparer) maps(path string, want, have map[string]any) {
	for k, w := range want {
		before := len(c.out)
		if h, ok := have[k]; ok {
			c.field(path, k, w, h)
		} else if c.complete && w != nil {
			c.out = append(c.out, change.Change{Path: change.Join(path, k), Verb: change.Insert, New: w})
		}
		if len(c.out) > before && (change.IsSecretField(want, k) || change.IsSecretField(have, k)) {
			for i := range c.out[before:] {
				c.out[before+i].Secret = true // an Object of provider-kubernetes has a manifest
			}
		}
	}
}

// field compares a field of two maps, which may be a manifest of Kubernetes.
func (c *comparer) field(path, key string, want, have any) {
	inner := *c
	inner.out = nil
	w, isMap := want.(map[string]any)
	h, areMaps := have.(map[string]any)
	switch {
	case isMap && areMaps && key == manifest && isManifest(w) && isManifest(h):
		inner.manifest(change.Join(path, key), w, h)
	default:
		inner.quantities = c.quantities || key == "limits" || key == "requests"
		inner.values(change.Join(path, key), want, have)
	}
	c.out = append(c.out, inner.out...)
}

func (c *comparer) values(path string, want, have any) {
	switch w := want.(type) {
	case map[string]any:
		if h, ok := have.(map[string]any); ok {
			c.maps(path, w, h)
			return
		}
	case []any:
		h, ok := have.([]any)
		if ok && !c.exact && c.byKey(path, w, h) {
			return
		}
		if ok && len(h) == len(w) {
			for i := range w {
				c.values(path+"["+strconv.Itoa(i)+"]", w[i], h[i])
			}
			return
		}
	}
	if !c.same(want, have) {
		c.out = append(c.out, change.Change{Path: path, Verb: change.Mutate, Old: have, New: want})
	}
}

// listKeys by which elements of lists are identified, best first.
var listKeys = []string{"key", "name", "id"}

// byKey compares lists whose elements have a key: their order is ignored then. It
// returns false where they have none, or not the same elements.
func (c *comparer) byKey(path string, want, have []any) bool {
	for _, k := range listKeys {
		w, h := byKey(want, k), byKey(have, k)
		if w == nil || h == nil || len(w) != len(h) {
			continue
		}
		for key := range w {
			if _, ok := h[key]; !ok {
				return false
			}
		}
		for i, e := range want {
			c.values(path+"["+strconv.Itoa(i)+"]", e, h[e.(map[string]any)[k].(string)])
		}
		return true
	}
	return false
}

// byKey returns the elements of a list by their key; nil where an element has no key or shares it.
func byKey(list []any, key string) map[string]any {
	out := map[string]any{}
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, ok := m[key].(string)
		if _, taken := out[name]; !ok || taken {
			return nil
		}
		out[name] = e
	}
	return out
}

// Outside returns the differences outside of the accepted paths.
func Outside(differences []change.Change, accepted []string) []change.Change {
	return slices.DeleteFunc(slices.Clone(differences), func(d change.Change) bool { return Touches(d, accepted) })
}

// Touches reports whether a difference is at, below or above one of the paths.
func Touches(d change.Change, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return change.Under(d.Path, p) || change.Under(p, d.Path) })
}

// Gone reports whether the message of a Synced condition reports that the external resource does not exist, in the
// form in which crossplane-runtime writes it for a closed gate (v2.3, errExternalResourceNotExist).
func Gone(message string) bool { return strings.Contains(message, "external resource does not exist") }
