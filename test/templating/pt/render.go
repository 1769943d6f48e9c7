package pt

import (
	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/fieldpath"
	"github.com/crossplane/function-sdk-go/resource"

	"github.com/kausality-io/function-kausality/test/templating/input"
)

// render one template into the desired state. Warnings do not keep the
// resource from being composed, unless it does not exist yet and lacks a
// required source. An error ends the pipeline.
func (s *state) render(t input.Template) (warnings []error, err error) {
	name := resource.Name(t.Name)
	dcd, err := s.base(name, t.Base)
	if err != nil {
		return nil, err
	}
	ocd, exists := s.observed[name]
	if exists {
		// Keep the template associated with the resource it made.
		dcd.Resource.SetNamespace(ocd.Resource.GetNamespace())
		dcd.Resource.SetName(ocd.Resource.GetName())
		ready, err := isReady(ocd.Resource, t.ReadinessChecks)
		if err != nil {
			warnings = append(warnings, err)
		}
		if ready {
			dcd.Ready = resource.ReadyTrue
		}
	}
	skip, more, err := s.patch(t.Patches, dcd, ocd, exists)
	if err != nil {
		return nil, err
	}
	if !skip {
		s.desired[name] = dcd
	}
	return append(warnings, more...), nil
}

// patch the resource, and the composite from it. It returns skip if the
// resource must not be created yet.
func (s *state) patch(ps []input.Patch, dcd *resource.DesiredComposed, ocd resource.ObservedComposed, exists bool) (skip bool, warnings []error, err error) {
	for i, p := range ps {
		if !p.ToComposed() && !exists {
			continue // There is nothing to patch from yet.
		}
		from, to := s.oxr.Resource.Object, dcd.Resource.Object
		if !p.ToComposed() {
			from, to = ocd.Resource.Object, s.dxr.Resource.Object
		}
		err := apply(p, from, to)
		switch {
		case err == nil:
		case !fieldpath.IsNotFound(err):
			return false, nil, errors.Wrapf(err, "%s patch at index %d", p.Kind(), i)
		case p.Required() && p.ToComposed() && !exists:
			w := errors.Wrapf(err, "not created yet because the %s patch at index %d requires its source", p.Kind(), i)
			return true, append(warnings, w), nil
		case p.Required():
			warnings = append(warnings, errors.Wrapf(err, "%s patch at index %d requires its source, but its destination already exists", p.Kind(), i))
		}
	}
	return false, warnings, nil
}
