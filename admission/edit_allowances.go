package admission

import (
	"fmt"
	"slices"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// writeAllowances updates the allowances of the object with a change of it: consumed ones are removed,
// those that the change grants are added, and those for the external resource of a managed resource are
// copied from its parent (KR-06-03, KR-06-08, KR-06-11). It refuses a value that is too large.
func (ed *editor) writeAllowances() *outcome.Refusal {
	stored, has := ed.stored[v1alpha1.AnnotationKeyAllowances]
	switch {
	case !has && ed.PolicySet().Empty():
		return nil
	case has && !ed.changesDesiredState():
		// A user's approval must not come with an edit of a system annotation: the
		// policy that protects it while the webhook is down could not identify the author.
		ed.put(v1alpha1.AnnotationKeyAllowances, stored)
		return nil
	}
	all, err := allowance.Parse(stored)
	if err != nil {
		ed.warnings.Add(fmt.Sprintf("%v on %s; they are replaced", err, identity.Describe(ed.Req.Ref())))
	}
	kept := all
	if has {
		kept = all.Live(ed.consumedAt())
	}
	next := kept.With(ed.granted()...).With(ed.travelled()...)
	if len(next) == 0 {
		ed.set(v1alpha1.AnnotationKeyAllowances, nil)
		return nil
	}
	value := next.String()
	ed.put(v1alpha1.AnnotationKeyAllowances, value)
	return ed.tooLarge(value)
}

// consumedAt returns the generation up to which the object's allowances are consumed.
func (ed *editor) consumedAt() int64 {
	s := parent.Sum(ed.Req.Whole(), ed.Kind.Role)
	at := ed.SettledAt(s)
	if ed.Kind.ManagementPolicies {
		at = max(at, gating.ExternallySettledAt(ed.stored, s))
	}
	return at
}

// tooLarge returns the refusal of allowances that, with the trace, exceed the limit (KR-02-15); nil
// where they fit.
func (ed *editor) tooLarge(allowances string) *outcome.Refusal {
	size := len(allowances) + len(ed.after()[v1alpha1.AnnotationKeyTrace])
	if size <= v1alpha1.MaxAnnotationBytes {
		return nil
	}
	return &outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonAnnotationTooLarge,
		Why: fmt.Sprintf("trace and allowances of %s would be %d bytes together, more than the %d that fit",
			identity.Describe(ed.Req.Ref()), size, v1alpha1.MaxAnnotationBytes),
		Next: "Wait until the object has settled (its allowances are removed then), or narrow the AllowancePolicy rules."}
}

// granted returns the allowances for this change, if it is an intent.
func (ed *editor) granted() allowance.Entries {
	policies := ed.PolicySet().Of(ed.Req.Kind.GroupKind())
	if len(policies) == 0 || !ed.changesDesiredState() || ed.Req.Operation != Update {
		return nil
	}
	ref := ed.Req.Ref()
	out, warnings := allowance.Grant(ed.ctx, policies, allowance.Intent{
		Kind: ref.GroupKind(), Name: ref.Name, Generation: ed.nextGeneration(),
		User: ed.Req.User.Name, Groups: ed.Req.User.Groups, Details: ed.Fields(),
		Content: ed.Req.Object.Object, Secrets: ed.Secrets(), Input: ed.input(), From: ed.rebased(),
	})
	ed.warnings.Add(warnings...)
	return out
}

// travelled returns the allowances for the external resource of a managed resource, or of an object of
// another system, that come with the change, from the parent (KR-06-11, KR-08-50).
func (ed *editor) travelled() allowance.Entries {
	gated := ed.Kind.ManagementPolicies || verb.IsForeign(ed.Req.Kind.GroupKind())
	if !gated || !ed.actor().Controller || !ed.governed() && ed.verdict.Upgrade == nil || !ed.changesDesiredState() {
		return nil
	}
	external := ed.rebased().External(ed.Req.Kind.GroupKind(), ed.Verb(), ed.Fields())
	ed.external, ed.externalVerbs = external, ed.opening(external)
	if len(external) == 0 {
		return nil
	}
	ref := ed.Req.Ref()
	hop := v1alpha1.AllowanceHop{Kind: ref.Kind, Name: ref.Name, Generation: ed.nextGeneration()}
	if fields := ed.Fields(); len(fields) > 0 {
		hop.Field = fields[0].Path
	}
	return external.Extend(hop)
}

// opening returns the verbs that the gate opens for: by allowances, by section initializing, by an
// upgrade.
func (ed *editor) opening(external allowance.Entries) []string {
	child := ed.Req.Kind.GroupKind()
	verbs := external.Verbs(child)
	if n := ed.narrowing(); ed.Req.Operation == Create && n.whileInitializes {
		if !n.initializing.Given {
			verbs = append(verbs, allowance.VerbCreate)
		}
		verbs = append(verbs, n.initializing.External(child)...)
	}
	if ed.verdict.Upgrade != nil {
		verbs = append(verbs, ed.verdict.Upgrade.External(child)...)
	}
	return verbs
}

// governed reports whether policies alone open the gate (KR-08-04). What the
// parent's controller changes for an intent from before the policies is not
// governed by them.
func (ed *editor) governed() bool {
	if ed.actor().Controller {
		return len(ed.class.binding) > 0
	}
	return len(ed.class.parents) > 0
}

// governedVerbs returns the verbs of Crossplane among the external verbs.
func (ed *editor) governedVerbs() []v1alpha1.Verb {
	all := []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate, v1alpha1.VerbDelete}
	return slices.DeleteFunc(all, func(v v1alpha1.Verb) bool { return !allowance.Gives(ed.externalVerbs, string(v)) })
}
