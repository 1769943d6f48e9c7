package admission

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// actor of a change, as far as it can be told.
type actor struct {
	// controller: it is the parent's controller.
	controller bool
	// approval that lets its drift through; stands in the hop.
	approval *v1alpha1.HopApproval
	// undetermined: nobody can tell.
	undetermined bool
	// follows: it changes a child that follows the world and not a spec.
	follows bool
}

// reason of a permission, with the undetermined controller and the built-in rule
// named.
func (a actor) reason(r Reason) Reason {
	switch {
	case a.undetermined:
		return ReasonUndetermined
	case a.follows:
		return ReasonFollowsWorld
	}
	return r
}

// identify whether the parent's controller asks (spec 4): the first rule that
// decides.
func (ev *evaluation) identify() {
	if ev.req.Actor == ActorParentController {
		ev.actor = actor{controller: true}
		return
	}
	for _, rule := range []func() (is, decided bool){ev.byComposedManager, ev.byUserHash, ev.byStatusManager} {
		if is, decided := rule(); decided {
			ev.actor = actor{controller: is}
			return
		}
	}
	ev.actor = actor{undetermined: true}
}

// byComposedManager is rule 1: Crossplane.
func (ev *evaluation) byComposedManager() (is, decided bool) {
	manager := ev.manager
	if ev.Options.Identify == IdentifyUserHash || manager == "" {
		return false, false
	}
	switch ev.parent.Role {
	case parent.RoleClaim:
		return true, subject.IsClaimSync(manager)
	case parent.RoleComposite:
		if manager != subject.ComposedManager(ev.parentRef.Name, ev.parentRef.GroupKind()) {
			return false, false
		}
		known := controllersOf(ev.parent)
		return len(known) == 0 || ev.writesStatus(ev.parent, known), true
	}
	return false, false
}

// byUserHash is rule 2: seed 002's intersection, made safe for the first
// writes.
func (ev *evaluation) byUserHash() (is, decided bool) {
	hash := ev.hash()
	if ev.Options.Identify == IdentifyFieldManager || hash == "" {
		return false, false
	}
	updaters := subject.ParseHashes(annotation(ev.req.stored(), v1alpha1.AnnotationKeyUpdaters))
	if ev.req.Operation == Create {
		updaters = nil
	}
	known := controllersOf(ev.parent)
	if writes := ev.writesStatus(ev.parent, known); writes || len(known) > 0 {
		return writes && (len(updaters) == 0 || updaters.Has(hash)), true
	}
	switch {
	case ev.req.Operation == Create:
		return true, true
	case len(updaters) == 1:
		return updaters.Has(hash), true
	}
	return false, false
}

// byStatusManager is rule 3, late installation: managedFields tell.
func (ev *evaluation) byStatusManager() (is, decided bool) {
	if ev.Options.Identify == IdentifyUserHash || ev.manager == "" || ev.parent.Manager == "" {
		return false, false
	}
	return ev.manager == ev.parent.Manager, true
}

func controllersOf(s *parent.State) subject.Hashes {
	return subject.ParseHashes(s.Annotations[v1alpha1.AnnotationKeyControllers])
}

func (ev *evaluation) writesStatus(s *parent.State, known subject.Hashes) bool {
	hash := ev.hash()
	return known.Has(hash) || ev.World.StatusWriter(s.Ref, hash)
}

// selfWrite is row 2: the object's own controller, or Crossplane's machinery.
func (ev *evaluation) selfWrite() (bool, error) {
	if ev.req.Operation != Update || ev.req.Subresource == SubresourceScale || ev.req.Actor != ActorUnknown {
		return false, nil
	}
	machinery := ev.machineryOnly()
	claimSync := ev.kind.Role == parent.RoleComposite && subject.IsClaimSync(ev.manager)
	self := machinery && subject.IsCrossplaneMachinery(ev.manager)
	if !self && !claimSync && ev.ownController() {
		both, err := ev.alsoParentController()
		if err != nil {
			return false, err
		}
		self = machinery || !both
	}
	if !self {
		return false, nil
	}
	ev.d.Class = ClassSelf
	return ev.allow(ReasonSelf)
}

// machineryOnly reports whether only fields that Crossplane writes changed.
func (ev *evaluation) machineryOnly() bool {
	spec, _ := ev.req.Object.Object["spec"].(map[string]any)
	_, modern := spec["crossplane"]
	machinery := parent.Machinery(ev.kind.Role, modern)
	if len(machinery) == 0 {
		return false
	}
	for _, c := range ev.changes {
		if c.Path == "spec" && onlyKeys(c.Old, machinery) && onlyKeys(c.New, machinery) {
			continue // a spec that holds nothing but machinery comes or goes as a whole
		}
		rest, ok := strings.CutPrefix(c.Path, "spec.")
		if !ok || !machinery[strings.FieldsFunc(rest, func(r rune) bool { return r == '.' || r == '[' })[0]] {
			return false
		}
	}
	return true
}

// onlyKeys reports whether a value is a map with no other keys, or nothing.
func onlyKeys(value any, keys map[string]bool) bool {
	m, ok := value.(map[string]any)
	for k := range m {
		if !keys[k] {
			return false
		}
	}
	return ok || value == nil
}

// ownController reports whether the user is the object's own controller: a
// machine that writes its status (spec 1).
func (ev *evaluation) ownController() bool {
	u := ev.req.User
	if !u.IsMachine() && (ev.Options.ControllerUsers == nil || !ev.Options.ControllerUsers(u.Name)) {
		return false
	}
	old := ev.req.OldObject
	hash := ev.hash()
	if subject.ParseHashes(annotation(old, v1alpha1.AnnotationKeyControllers)).Has(hash) || ev.World.StatusWriter(ev.req.ref(), hash) {
		return true
	}
	return parent.WritesStatus(old, ev.manager) || ev.kind.Role == parent.RoleManaged && parent.Provides(ev.req.Object, ev.manager)
}

// alsoParentController reports whether the object's own controller is its
// parent's controller too. Crossplane is, of nested composites; its field
// manager tells its two hats apart.
func (ev *evaluation) alsoParentController() (bool, error) {
	if !ev.hasParent {
		return false, nil
	}
	if subject.IsComposedApply(ev.manager) {
		return true, nil
	}
	if subject.IsCrossplaneMachinery(ev.manager) {
		return false, nil
	}
	done, err := ev.findParent()
	if err != nil || done {
		ev.d = Decision{} // findParent meets it again in its own row
		return false, err
	}
	return ev.actor.controller, nil
}

// classify a change by the table of spec 4.
func (ev *evaluation) classify() (bool, error) {
	ev.d.Phase = settling.Phase(ev.parent, ev.World.Settled(ev.parent.Ref), ev.Options.initialized(ev.parentRef.GroupKind())...)
	ev.govern()
	ev.id = differenceID(ev.req, v1alpha1.RelationControllerChild, ev.parent, ev.changes)
	switch {
	case !ev.actor.controller:
		ev.d.Class = ClassNewOrigin
	case len(ev.gov.binding) == 0 && followsWorld(ev.req, ev.parentRef.GroupVersionKind):
		ev.d.Class, ev.actor.follows = ClassExpected, true
	case ev.settled():
		ev.d.Class = ClassDrift
	default:
		ev.d.Class = ClassExpected
	}
	return false, nil
}

// settled reports whether the parent settled since its last intent.
func (ev *evaluation) settled() bool {
	if ev.Options.ExpectUntil == ExpectUntilObserved {
		return ev.parent.HasObserved && ev.parent.ObservedGeneration >= ev.intent.Generation
	}
	return settling.SettledAt(ev.parent, ev.intent.Generation, ev.World.Settled(ev.parent.Ref))
}

var podOwners = map[schema.GroupKind]bool{
	{Group: "apps", Kind: "ReplicaSet"}: true, {Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "apps", Kind: "DaemonSet"}: true, {Group: "batch", Kind: "Job"}: true,
}

// followsWorld reports whether a child follows the world and not a spec (spec
// 4): it is never drift.
func followsWorld(req *Request, owner schema.GroupVersionKind) bool {
	switch req.Kind.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		return podOwners[owner.GroupKind()]
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return owner.GroupKind() == schema.GroupKind{Group: "batch", Kind: "CronJob"}
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return req.Operation == Delete && scaledToZero(req)
	}
	return false
}

func scaledToZero(req *Request) bool {
	spec, _ := req.OldObject.Object["spec"].(map[string]any)
	switch n := spec["replicas"].(type) {
	case int64:
		return n == 0
	case float64:
		return n == 0
	}
	return false
}
