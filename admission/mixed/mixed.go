package mixed

import (
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Parts of an update.
type Parts struct {
	// Held has the paths of the leaves that are wanted as they were held.
	Held map[string]bool
	// Both are the paths that were held with another value: the intent and the cause of the drift change them (KR-05-57).
	Both []string
	// Rest is the number of leaves that are not in Held.
	Rest int
}

// Split returns the parts of an update, by what is remembered of the object.
func Split(leaves []change.Leaf, remembered *request.Held) Parts {
	p := Parts{Held: map[string]bool{}}
	for _, l := range leaves {
		if remembered.Has(l) {
			p.Held[l.Path] = true
			continue
		}
		if remembered.Changed(l) {
			p.Both = append(p.Both, l.Path)
		}
		p.Rest++
	}
	return p
}

// Half is the decision about one half of a change.
type Half struct {
	Allowed bool
	// Claims: it passes by an approval that must be claimed.
	Claims bool
	// Rejected: a rejection refuses it.
	Rejected bool
}

// Policy is what the object and its writer provide for a change if one half of it is refused (KR-05-62 to KR-05-64).
type Policy struct {
	Causes v1alpha1.MixedCauses
	// Separates: the write can pass without the held half.
	Separates bool
}

// Outcome of a change.
type Outcome string

const (
	// Passes: the change passes as a whole, each half by its own decision.
	Passes Outcome = "Passes"
	// RestRefused: the change is refused by the decision about the rest.
	RestRefused Outcome = "RestRefused"
	// HeldRefused: the change is refused by the decision about the held half.
	HeldRefused Outcome = "HeldRefused"
	// PassesWithoutHeld: the rest passes, and the held half is left out of the write.
	PassesWithoutHeld Outcome = "PassesWithoutHeld"
	// PassesWithBothCauses: the change passes as a whole, although its held half is refused.
	PassesWithBothCauses Outcome = "PassesWithBothCauses"
)

// Join combines the decisions about the two halves. A write claims one approval at most: where both
// halves pass by one, the held half waits, and passes with the next write.
func Join(held, rest Half, p Policy) Outcome {
	switch {
	case !rest.Allowed && held.Allowed:
		return RestRefused
	case !rest.Allowed:
		return HeldRefused
	case held.Allowed && !(held.Claims && rest.Claims):
		return Passes
	case p.Separates:
		return PassesWithoutHeld
	case p.Causes == v1alpha1.MixedCausesAdmit && !held.Rejected:
		return PassesWithBothCauses
	}
	return HeldRefused
}
