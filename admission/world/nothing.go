package world

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Nothing answers the questions of a World that only a cluster and its users can answer. A World that is no cluster, such as a
// recorded one or the request of a composition function, embeds it.
type Nothing struct{}

// StatusWriter returns false: no request was seen.
func (Nothing) StatusWriter(parent.Ref, string) bool { return false }

// Managed returns none.
func (Nothing) Managed(context.Context, *parent.State) ([]*parent.State, error) { return nil, nil }

// Below returns nothing: no change is known to be held.
func (Nothing) Below(context.Context, *parent.State) []Below { return nil }

// Known returns the zero value: no request was seen.
func (Nothing) Known(string) Known { return Known{} }

// Component returns false: no request is by a component of Kausality.
func (Nothing) Component(subject.User, string) bool { return false }

// byDefault are the users who may be controllers.
var byDefault = subject.Eligible{Namespaces: []string{subject.DefaultControllerNamespace}}

// MayControl returns true for machines: of Crossplane's kinds, for those of subject.DefaultControllerNamespace.
func (Nothing) MayControl(u subject.User, role parent.Role) bool {
	return byDefault.Has(u, role.Crossplane())
}

// MayApprove returns false: no user is known to have the right.
func (Nothing) MayApprove(context.Context, subject.User, parent.Ref, string) (bool, error) {
	return false, nil
}

// MayUpdateStatus returns true: a machine that writes under the field manager of a controller is believed, as befits what was
// admitted before, or has no user.
func (Nothing) MayUpdateStatus(context.Context, subject.User, parent.Ref) (bool, error) {
	return true, nil
}

// Guarded returns true: approvals count on every object.
func (Nothing) Guarded(*parent.State) bool { return true }

// MayGuard returns true.
func (Nothing) MayGuard(parent.Ref) bool { return true }

// Settings returns zero: no policy covers an object.
func (Nothing) Settings(parent.Ref, map[string]string) settings.Settings { return settings.Settings{} }

// Removing returns false.
func (Nothing) Removing() bool { return false }

// Initialized returns nothing: the conditions Initialized and Ready count.
func (Nothing) Initialized(schema.GroupKind) []string { return nil }

// Lists returns nil: schemas are unknown, and items of lists are compared by index.
func (Nothing) Lists(schema.GroupVersionKind) change.Lists { return nil }

// Defaults returns nil: schemas are unknown.
func (Nothing) Defaults(schema.GroupVersionKind) *change.Defaults { return nil }

// Object returns nil: expressions see the State.
func (Nothing) Object(context.Context, parent.Ref) (map[string]any, error) { return nil, nil }

// Build returns an empty one: the build of the controller is unknown.
func (Nothing) Build(context.Context, *request.Request, *parent.State) (allowance.Build, error) {
	return allowance.Build{}, nil
}

// Author returns the cause as it is: its author is unknown.
func (Nothing) Author(_ context.Context, cause v1alpha1.HopCause) (v1alpha1.HopCause, error) {
	return cause, nil
}
