package allowance

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
)

// Since returns the policies that apply to an intent: those that existed when it was made. A policy that is created
// while controllers carry out an earlier intent finds no allowances for it, and must not stop them half way.
func Since(policies []*Compiled, intent time.Time) []*Compiled {
	late := func(p *Compiled) bool { return p.Created.After(intent) }
	if !slices.ContainsFunc(policies, late) {
		return policies
	}
	return slices.DeleteFunc(slices.Clone(policies), late)
}

// Section is what policies declare for a phase of an object's life.
type Section struct {
	// Given: a policy has the section, so that what it does not name is not
	// allowed.
	Given bool
	coverage
}

// Inside returns the section for a child that represents nothing outside of the cluster, which External does not
// cover.
func (s Section) Inside() Section {
	s.inside = true
	return s
}

// Initializing returns what policies allow while an object initializes. initializing is whether it does, by its
// state; object is called where a policy's own expression decides, and may fail. active reports whether the object
// initializes: by its state where no policy has the section, otherwise by the section of at least one policy.
func Initializing(
	ctx context.Context, policies []*Compiled, initializing bool, object func() (map[string]any, error),
) (s Section, active bool, warnings []string) {
	s.initializing = true
	for _, p := range policies {
		if p.initializing == nil {
			continue
		}
		s.Given = true
		is, err := p.initializing.is(ctx, initializing, object)
		if err != nil {
			warnings = append(warnings, "AllowancePolicy "+p.Name+" counts as initialized: "+err.Error())
			continue
		}
		if is && !p.initializing.broken {
			active, s.allowed = true, append(s.allowed, p.initializing.allow...)
		}
	}
	return s, active || !s.Given && initializing, warnings
}

// is reports whether the phase holds. An expression of the policy replaces the state; it reads the object alone,
// without a request. An expression that fails for an object without a status is evaluated with an empty one:
// `!has(object.status.observedGeneration)` holds for it (KR-06-25).
func (p *phase) is(ctx context.Context, byDefault bool, object func() (map[string]any, error)) (bool, error) {
	if p.when == nil {
		return byDefault, nil
	}
	o, err := object()
	if err != nil {
		return false, err
	}
	is, err := p.when.True(ctx, &expression.Input{Object: o, Request: map[string]any{}})
	if _, has := o["status"]; err == nil || has {
		return is, err
	}
	o = maps.Clone(o)
	o["status"] = map[string]any{}
	return p.when.True(ctx, &expression.Input{Object: o, Request: map[string]any{}})
}

// Deleting returns what policies allow once an object is being deleted. Where several have the section, a change that
// any of them allows is allowed; where no policy has it, children may be deleted.
func Deleting(policies []*Compiled) Section {
	s := Section{}
	for _, p := range policies {
		if p.deleting != nil {
			s.Given = true
			if !p.deleting.broken {
				s.allowed = append(s.allowed, p.deleting.allow...)
			}
		}
	}
	return s
}

// Missing returns the paths of a change that the section does not allow, as Entries.Missing does. A section that is
// not given allows everything.
func (s Section) Missing(child schema.GroupKind, verb string, details []change.Detail) []string {
	if !s.Given {
		return nil
	}
	return s.missing(child, verb, details)
}

// External returns the verbs of relation External that the section names for a child kind, in Crossplane's verbs; nil
// where it names none.
func (s Section) External(child schema.GroupKind) []string { return externalVerbsOf(s.allowed, child) }

// externalVerbsOf returns the External verbs of permissions for a child kind, in Crossplane's verbs and their order;
// nil where no permission has such a verb.
func externalVerbsOf(permissions []allowed, child schema.GroupKind) []string {
	var out []string
	for _, a := range permissions {
		if a.external && a.target.has(child) {
			out = append(out, a.verbsFor(child)...)
		}
	}
	return out
}
