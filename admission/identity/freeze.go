package identity

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Freeze in force for an object, with where it is declared: on the object itself, on its
// Namespace, or in a Kausality policy that covers it.
type Freeze struct {
	v1alpha1.Freeze
	// Object that is frozen, and its kind.
	Object parent.Ref
	Kind   Kind
	// Namespace that declares it; "" otherwise.
	Namespace string
	// Policy that declares it; "" otherwise.
	Policy string
}

// Covering is what covers an object from outside, and may freeze it.
type Covering struct {
	// Namespace of the object; zero where it has none.
	Namespace settings.Namespace
	// Policies with a freeze that cover it.
	Policies []settings.PolicyFreeze
}

// FreezeOf returns the freeze of an object at a time: its own, else that of its Namespace, else that of
// a policy; nil where there is no freeze. What is being deleted is not frozen, since its cleanup must
// finish: neither the object nor what is in a Namespace that is being deleted, by that Namespace
// (KR-14-33, KR-14-34).
func FreezeOf(s *parent.State, kind Kind, by Covering, now time.Time) *Freeze {
	if s.Deleting() {
		return nil
	}
	if own := approval.FreezeOf(s.Annotations, now); own != nil {
		return &Freeze{Freeze: *own, Object: s.Ref, Kind: kind}
	}
	return by.Freeze(s.Ref, kind, now)
}

// Freeze returns the freeze of an object by its Namespace or by a policy that covers it; nil where there
// is no freeze.
func (c Covering) Freeze(ref parent.Ref, kind Kind, now time.Time) *Freeze {
	if n := c.Namespace; n.Freeze != "" && ref.Namespace != "" && !n.Terminating {
		if f := approval.FreezeOf(map[string]string{v1alpha1.AnnotationKeyFreeze: n.Freeze}, now); f != nil {
			return &Freeze{Freeze: *f, Object: ref, Kind: kind, Namespace: ref.Namespace}
		}
	}
	for _, p := range c.Policies {
		if !approval.Ended(p.Expiry, now) {
			return &Freeze{Freeze: p.Freeze, Object: ref, Kind: kind, Policy: p.Policy}
		}
	}
	return nil
}

// Why states what is frozen, as a clause: with what, by whom, when, why, and until when (KR-14-35).
func (f Freeze) Why() string {
	what := Describe(f.Object) + " was frozen"
	switch {
	case f.Namespace != "":
		what += " with Namespace " + f.Namespace
	case f.Policy != "":
		what += " with Kausality policy " + f.Policy
	}
	return frozen(what, f.Freeze)
}

// End returns the command that ends the freeze.
func (f Freeze) End() string {
	switch {
	case f.Namespace != "":
		return "kubectl annotate namespace " + f.Namespace + " " + v1alpha1.AnnotationKeyFreeze + "-"
	case f.Policy != "":
		return "kubectl patch kausality " + f.Policy + ` --type=json -p '[{"op":"remove","path":"/spec/freeze"}]'`
	}
	return "kubectl annotate " + Target(f.Object, f.Kind) + " " + v1alpha1.AnnotationKeyFreeze + "-"
}

// Left returns how long the freeze lasts from a time on; 0 where it has no expiry.
func (f Freeze) Left(now time.Time) time.Duration {
	if f.Expiry == nil {
		return 0
	}
	return max(f.Expiry.Sub(now), time.Millisecond)
}
