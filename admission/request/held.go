package request

import (
	"cmp"
	"maps"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Held is what an adapter remembers of a child that was refused as drift: a later intent of its parent does not allow it
// (KR-05-55). nil for none. It is not modified.
type Held struct {
	// Values that were wanted, by the path of a change.Leaf; nil for none.
	Values map[string]string
	// Whole: the creation or deletion of the child, or more paths than are remembered.
	Whole bool
	// Since is the intent after which it was first held; zero where it is unknown.
	Since v1alpha1.SettledIntent
	// Beside it, what another adapter remembers of the same child; nil for nothing.
	Beside *Held
}

// And returns what is held by either of two records; a path may be held with two values. nil for none.
func (h *Held) And(other *Held) *Held {
	if h == nil || other == nil {
		return cmp.Or(h, other)
	}
	out := *h
	out.Whole, out.Beside = h.Whole || other.Whole, other
	if other.Since.Generation < h.Since.Generation {
		out.Since = other.Since
	}
	return &out
}

// HeldOf returns what a record of held changes contains; nil for an empty record.
func HeldOf(d v1alpha1.HeldDrift) *Held {
	if len(d.Drift) == 0 {
		return nil
	}
	h := &Held{Values: d.Drift}
	_, h.Whole = d.Drift[v1alpha1.HeldWhole]
	if d.Since != nil {
		h.Since = *d.Since
	}
	return h
}

// Drift returns the record to store; the zero record where nothing is held, and of nil.
func (h *Held) Drift() v1alpha1.HeldDrift {
	if h == nil || !h.Whole && len(h.Values) == 0 {
		return v1alpha1.HeldDrift{}
	}
	out := v1alpha1.HeldDrift{Drift: h.Values}
	if h.Whole || len(h.Values) > v1alpha1.MaxHeldDrift || size(h.Values) > maxHeldBytes {
		out.Drift = map[string]string{v1alpha1.HeldWhole: ""}
	}
	if h.Since.Generation > 0 {
		since := h.Since
		out.Since = &since
	}
	return out
}

// maxHeldBytes of the paths that are remembered of one child.
const maxHeldBytes = 8 * 1024

func size(values map[string]string) (bytes int) {
	for k, v := range values {
		bytes += len(k) + len(v)
	}
	return bytes
}

// Has reports whether a leaf was held with this value.
func (h *Held) Has(l change.Leaf) bool {
	if h == nil {
		return false
	}
	value, ok := h.Values[l.Path]
	return h.Whole || ok && value == l.Value || h.Beside.Has(l)
}

// Changed reports whether a leaf was held with another value.
func (h *Held) Changed(l change.Leaf) bool {
	if h == nil || h.Has(l) {
		return false
	}
	_, ok := h.Values[l.Path]
	return ok || h.Beside.Changed(l)
}

// With returns what is held with further leaves, or with the object as a whole. Since is that of what
// was held before, where any of it still is.
func (h *Held) With(leaves []change.Leaf, whole bool, since v1alpha1.SettledIntent) *Held {
	out := &Held{Whole: whole, Since: since, Values: make(map[string]string, len(leaves))}
	for _, l := range leaves {
		if h.Has(l) {
			out.Since = h.Since
		}
		out.Values[l.Path] = l.Value
	}
	if whole && h != nil && h.Whole {
		out.Since = h.Since
	}
	return out
}

// Still returns those of the leaves that are still held, given the leaves that are wanted now; nil where
// none of them is.
func (h *Held) Still(leaves []change.Leaf) *Held {
	if h == nil {
		return nil
	}
	out := &Held{Since: h.Since, Values: maps.Clone(h.Values)}
	if h.Whole {
		out.Whole = true
		return out
	}
	clear(out.Values)
	for _, l := range leaves {
		if h.Has(l) {
			out.Values[l.Path] = l.Value
		}
	}
	if len(out.Values) == 0 {
		return nil
	}
	return out
}
