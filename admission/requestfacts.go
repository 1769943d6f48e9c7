package admission

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// question is what a request asks, whatever its parent is like: read once, also
// where it is decided twice.
type question struct {
	kind     identity.Kind
	settings settings.Settings
	// objectMode is the mode of the object; objectWarnings are about annotations
	// that say none that is known.
	objectMode     v1alpha1.Mode
	objectWarnings []string
	// manager is the field manager that writes, where it can be told.
	manager  string
	policies policies
	changes  []change.Change

	parentRef parent.Ref
	hasParent bool

	// userHash is known once asked for, see hash.
	userHash string
	hashed   bool
}

// look at the request: what changes, in which mode.
func (ev *evaluation) look() error {
	var err error
	stored := ev.req.stored()
	ev.kind = ev.World.Kind(ev.req.Kind)
	if ev.Options.Settings != nil {
		ev.settings = ev.Options.settingsFor(ev.req.ref(), stored.GetLabels())
	}
	if ev.mode, err = ev.modeOf(modeAnnotation(stored), ev.req.Namespace, ev.settings); err != nil {
		return err
	}
	ev.objectMode, ev.objectWarnings = ev.mode, slices.Clip(ev.modeWarnings)
	if ev.manager = ev.req.FieldManager; ev.manager == "" && ev.req.Operation != Delete {
		ev.manager = parent.Writer(ev.req.OldObject, ev.req.Object)
	}
	ev.policies = readPolicies(ev.req, ev.kind, ev.manager, ev.closeTo())
	ev.changes = change.DiffObjects(ev.policies.old, ev.policies.new, ev.req.unstored())
	ev.parentRef, ev.hasParent = parent.Of(stored, ev.kind.Role)
	return nil
}

// closeTo are the verbs of a closed gate beside Observe.
func (ev *evaluation) closeTo() []v1alpha1.Verb {
	if ev.settings.HasCloseTo {
		return ev.settings.CloseTo
	}
	return ev.Options.CloseTo
}

// hash of the user who asks.
func (ev *evaluation) hash() string {
	if !ev.hashed {
		ev.userHash, ev.hashed = ev.req.User.Hash(), true
	}
	return ev.userHash
}
