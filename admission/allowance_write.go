package admission

import (
	"fmt"
	"slices"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// writeAllowances of the object with a change of it: those that are consumed go,
// those that the change is granted come, and to a managed resource those for its
// external resource travel from its parent. It refuses what is too large.
func (ev *evaluation) writeAllowances() bool {
	stored, has := ev.stored[v1alpha1.AnnotationKeyAllowances]
	switch {
	case !has && ev.policySet().Empty():
		return true
	case has && (ev.d.Class == ClassNone || ev.d.Class == ClassSelf):
		// A person's approval must not come with an edit of what only we write: the
		// policy that protects it while we are down could not tell who made it.
		ev.put(v1alpha1.AnnotationKeyAllowances, stored)
		return true
	}
	entries, err := allowance.Parse(stored)
	if err != nil {
		ev.warn(fmt.Sprintf("%v on %s; they are written anew", err, identity.Describe(ev.req.ref())))
	}
	kept := entries
	if has {
		s := parent.Sum(ev.req.whole(), ev.kind.Role)
		at := ev.settledAt(s)
		if ev.kind.ManagementPolicies {
			at = max(at, gating.ExternallySettledAt(ev.stored, s))
		}
		kept = entries.Live(at)
	}
	next := kept.With(ev.granted()...).With(ev.travelled()...)
	if len(next) == 0 {
		ev.set1(v1alpha1.AnnotationKeyAllowances, nil)
		return true
	}
	value := next.String()
	ev.put(v1alpha1.AnnotationKeyAllowances, value)
	return ev.fits(value)
}

// fits reports whether trace and allowances are small enough together, and
// refuses where they are not.
func (ev *evaluation) fits(allowances string) bool {
	size := len(allowances) + len(ev.after()[v1alpha1.AnnotationKeyTrace])
	if size <= v1alpha1.MaxAnnotationBytes {
		return true
	}
	_, _ = ev.refuse(refusal{code: codeComposed, reason: ReasonAnnotationTooLarge,
		why:  fmt.Sprintf("trace and allowances of %s would be %d bytes together, more than the %d that fit", identity.Describe(ev.req.ref()), size, v1alpha1.MaxAnnotationBytes),
		next: "Wait until it settled, which consumes its allowances, or let its AllowancePolicies allow less in one rule."})
	return false
}

// intent reports whether the request is one: a desired-state change that is no
// self write.
func (ev *evaluation) changesIntent() bool {
	return ev.d.Class != ClassNone && ev.d.Class != ClassSelf && ev.req.Operation == Update
}

// granted allowances for this change.
func (ev *evaluation) granted() allowance.Entries {
	policies := ev.policySet().Of(ev.req.Kind.GroupKind())
	if len(policies) == 0 || !ev.changesIntent() {
		return nil
	}
	ref := ev.req.ref()
	out, warnings := allowance.Grant(ev.ctx, policies, allowance.Intent{
		Kind: ref.GroupKind(), Name: ref.Name, Generation: ev.nextGeneration(),
		User: ev.req.User.Name, Groups: ev.req.User.Groups, Details: ev.fields(),
		Content: ev.req.Object.Object, Input: ev.variables(), From: ev.inherited(),
	})
	ev.d.Warnings = append(ev.d.Warnings, warnings...)
	return out
}

// travelled are the allowances for the external resource of a managed resource
// that come with the change, from the parent.
func (ev *evaluation) travelled() allowance.Entries {
	if !ev.kind.ManagementPolicies || !ev.actor.controller || !ev.governed() && ev.gov.upgrade == nil || ev.d.Class == ClassNone || ev.d.Class == ClassSelf {
		return nil
	}
	child := ev.req.Kind.GroupKind()
	entries := ev.inherited().External(child, ev.verb(), ev.fields())
	ev.gov.external = ev.externalVerbs(entries)
	if len(entries) == 0 {
		return nil
	}
	ref := ev.req.ref()
	hop := v1alpha1.AllowanceHop{Kind: ref.Kind, Name: ref.Name, Generation: ev.nextGeneration()}
	if fields := ev.fields(); len(fields) > 0 {
		hop.Field = fields[0].Path
	}
	return entries.Extend(hop)
}

// externalVerbs that the gate opens for: by allowances, by section initializing,
// by an upgrade.
func (ev *evaluation) externalVerbs(entries allowance.Entries) []string {
	verbs := entries.Verbs()
	child := ev.req.Kind.GroupKind()
	if ev.req.Operation == Create && ev.gov.whileInitializes {
		if !ev.gov.initializing.Given {
			verbs = append(verbs, allowance.VerbCreate)
		}
		verbs = append(verbs, ev.gov.initializing.External(child)...)
	}
	if ev.gov.upgrade != nil {
		verbs = append(verbs, ev.gov.upgrade.External(child)...)
	}
	return verbs
}

// governed reports whether only what policies say opens the gate (spec 8). What
// the parent's controller carries out of an intent from before the policies is
// not governed by them.
func (ev *evaluation) governed() bool {
	if ev.actor.controller {
		return len(ev.gov.binding) > 0
	}
	return len(ev.gov.parents) > 0
}

// governedVerbs are those of Crossplane among the external verbs.
func (ev *evaluation) governedVerbs() []v1alpha1.Verb {
	var out []v1alpha1.Verb
	for _, v := range []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate, v1alpha1.VerbDelete} {
		if allowance.Gives(ev.gov.external, string(v)) && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
