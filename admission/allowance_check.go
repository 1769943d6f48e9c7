package admission

import (
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// narrowing of a change by AllowancePolicies (KR-04-14).
type narrowing struct {
	// initializing section, and whether the parent initializes by its rule.
	initializing     allowance.Section
	whileInitializes bool
	// initializingAllows: that section allows the change.
	initializingAllows bool
	// missing paths that no allowance covers, the one path "" for a creation or
	// deletion; section names the one that left them out, empty for none.
	missing []string
	section string
}

// Sections of an AllowancePolicy, in messages.
const (
	sectionInitializing = "initializing"
	sectionDeleting     = "deleting"
)

// unnarrowed is the narrowing of most changes. It is not modified.
var unnarrowed = &narrowing{}

// narrowing returns the restrictions that policies put on the change; the zero narrowing where no policy
// binds it.
func (ev *evaluation) narrowing() *narrowing {
	return *ev.narrowed.Get(func() *narrowing {
		switch {
		case ev.parent().Deleting():
			return narrowDeleting(ev)
		case len(ev.class.binding) == 0:
			return unnarrowed
		}
		n := narrowInitializing(ev)
		if !n.initializingAllows && ev.class.class == outcome.ClassExpected {
			covering := ev.inherited()
			if ev.Inside() {
				covering = covering.Inside()
			}
			n.missing = covering.Missing(ev.Req.Kind.GroupKind(), ev.Verb(), ev.Fields())
		}
		return n
	})
}

// narrowDeleting returns what section deleting leaves out for children of a parent that is being
// deleted (KR-06-10).
func narrowDeleting(ev *evaluation) *narrowing {
	s := allowance.Deleting(ev.class.parents)
	if ev.Inside() {
		s = s.Inside()
	}
	if !s.Given || !ev.bound() {
		return unnarrowed
	}
	return &narrowing{section: sectionDeleting, missing: s.Missing(ev.Req.Kind.GroupKind(), ev.Verb(), ev.Fields())}
}

// narrowInitializing returns what section initializing allows for children of a parent that
// initializes (KR-06-09). What it does not allow, an allowance may.
func narrowInitializing(ev *evaluation) *narrowing {
	if !ev.bound() {
		return &narrowing{}
	}
	s, active, warnings := allowance.Initializing(ev.ctx, ev.class.binding, ev.class.initializing(), ev.parentObject)
	ev.warnings.Add(warnings...)
	if ev.Inside() {
		s = s.Inside()
	}
	n := &narrowing{initializing: s, whileInitializes: active}
	if !active {
		return n
	}
	n.section = sectionInitializing
	n.initializingAllows = len(s.Missing(ev.Req.Kind.GroupKind(), ev.Verb(), ev.Fields())) == 0
	return n
}

// overdue reports whether the parent has settled and nothing changed since, and only a policy's
// own expression still has it initialize: what the section allows is drift that passes (KR-06-24).
func (ev *evaluation) overdue() bool {
	return ev.class.class == outcome.ClassDrift && !ev.class.initializing() && ev.narrowing().initializingAllows
}

// bound reports whether policies bind the user: the parent's controller, and the
// garbage collector, which deletes as a consequence of another deletion.
func (ev *evaluation) bound() bool {
	return ev.actor().Controller || ev.Req.User.IsGarbageCollection()
}

// inherited returns the allowances of the parent that are not consumed.
func (ev *evaluation) inherited() allowance.Entries {
	return *ev.allowances.Get(func() allowance.Entries {
		p := ev.parent()
		all, err := allowance.Parse(p.Annotations[v1alpha1.AnnotationKeyAllowances])
		if err != nil {
			ev.warnings.Add(fmt.Sprintf("%v on %s; they count as absent", err, identity.Describe(p.Ref)))
		}
		return all.Live(ev.SettledAt(p))
	})
}

// rebased returns the inherited allowances with hops relative to this object; nil unless the parent's
// controller makes the request.
func (ev *evaluation) rebased() allowance.Entries {
	if !ev.actor().Controller {
		return nil
	}
	from, to := ev.parent().Namespace, ev.Req.Namespace
	return ev.inherited().Rebase(func(h v1alpha1.AllowanceHop) v1alpha1.AllowanceHop {
		at := trace.Rebase(v1alpha1.Hop{Namespace: h.Namespace, ClusterScoped: h.ClusterScoped}, from, to)
		h.Namespace, h.ClusterScoped = at.Namespace, at.ClusterScoped
		return h
	})
}

// parentObject returns the parent for an expression: the whole object where it can be read, else what
// its summary contains.
func (ev *evaluation) parentObject() (map[string]any, error) {
	o, err := ev.World.Object(ev.ctx, ev.parent().Ref)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(ev.parent().Ref), err)
	}
	if o == nil {
		return ev.parent().Object(), nil
	}
	return o, nil
}

// policyNames returns the names of the AllowancePolicies of the parent's kind, separated by commas, for
// messages.
func policyNames(ev *evaluation) string {
	names := make([]string, 0, len(ev.class.parents))
	for _, p := range ev.class.parents {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// allowanceMissing returns the refusal of a change that policies do not allow.
func allowanceMissing(ev *evaluation, r outcome.Refusal) outcome.Refusal {
	r.Reason = outcome.ReasonAllowanceMissing
	n := ev.narrowing()
	on, what := identity.Describe(ev.parent().Ref), allowance.DescribeMissing(n.missing, ev.Verb())
	switch policies := policyNames(ev); n.section {
	case sectionDeleting:
		r.Why = fmt.Sprintf("%s is being deleted, and section deleting of AllowancePolicy %s does not allow %s", on, policies, what)
	case sectionInitializing:
		r.Why = fmt.Sprintf("%s initializes, and neither section initializing of AllowancePolicy %s nor an allowance on it allows %s", on, policies, what)
	default:
		r.Why = fmt.Sprintf("no allowance on %s covers %s (AllowancePolicy %s)", on, what, policies) + facts.GraphLines(ev.ctx, ev.Facts, ev.parent(), n.missing)
	}
	return r
}

// input returns the input of expressions about this request.
func (ev *evaluation) input() *expression.Input {
	return *ev.variables.Get(func() *expression.Input {
		in := ev.RequestInput()
		if p := ev.parent(); p != nil {
			in.Parent = p.Object()
		}
		return in
	})
}
