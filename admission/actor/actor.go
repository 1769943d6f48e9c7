package actor

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/world"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Actor of a change.
type Actor struct {
	// Controller: it is the parent's controller.
	Controller bool
	// Undetermined: no identification rule matched.
	Undetermined bool
	// Composer: it is Crossplane, applying what a Composition has.
	Composer bool
}

// Identify determines whether the parent's controller makes the request, by the first rule that decides (KR-04-05,
// KR-04-06).
func Identify(ctx context.Context, f *facts.Facts, p *parent.State) (Actor, error) {
	if f.Req.Actor == request.ActorParentController {
		return Actor{Controller: true}, nil
	}
	if p.Crossplane() && !f.World.MayControl(f.Req.User, p.Role) { // whatever it writes, as whatever field manager
		return Actor{}, nil
	}
	is, decided, err := byComposedManager(ctx, f, p)
	if err != nil {
		return Actor{}, err
	}
	composer := is && subject.IsComposedApply(f.Manager)
	if f.Options.Identify == facts.IdentifyUserHash && IsComposer(f) {
		if composer, err = writesStatus(ctx, f, p.Ref, p.Role, subject.ControllersOf(p.Annotations)); err != nil {
			return Actor{}, err
		}
	}
	if !decided {
		if is, decided, err = byUserHash(ctx, f, p); err != nil {
			return Actor{}, err
		}
	}
	if !decided {
		is, decided = byStatusManager(f, p)
	}
	return Actor{Controller: is, Undetermined: !decided, Composer: composer}, nil
}

// byComposedManager identifies Crossplane (KR-04-01, KR-04-02) and kro (KR-18-02) by the field manager under which it writes. Since any
// client can name that, the user must be one that the parent's record names or, where it has none yet, one that may
// write its status (KR-13-04).
func byComposedManager(ctx context.Context, f *facts.Facts, p *parent.State) (is, decided bool, err error) {
	if f.Options.Identify == facts.IdentifyUserHash || f.Manager == "" {
		return false, false, nil
	}
	claim := p.Role == parent.RoleClaim && subject.IsClaimSync(f.Manager)
	composed := p.Role == parent.RoleComposite && IsComposer(f)
	applied := f.Member && f.Manager == subject.ManagerApplySet
	if !claim && !composed && !applied {
		return false, false, nil
	}
	known := subject.ControllersOf(p.Annotations)
	if is, err = writesStatus(ctx, f, p.Ref, p.Role, known); is || err != nil || known.Known() {
		return is, true, err
	}
	is, err = MayUpdateStatus(ctx, f, p.Ref, p.Role)
	return is, true, err
}

// IsComposer reports whether the field manager is the one that Crossplane applies composed resources of this very
// parent with.
func IsComposer(f *facts.Facts) bool {
	return subject.IsComposer(f.Manager, f.ParentRef.Name, f.ParentRef.GroupKind())
}

// byUserHash compares the users that write the parent's status with those that
// change the child (KR-04-03). The first write of a child has no updaters yet.
func byUserHash(ctx context.Context, f *facts.Facts, p *parent.State) (is, decided bool, err error) {
	hash := f.Hash()
	if f.Options.Identify == facts.IdentifyFieldManager || hash == "" {
		return false, false, nil
	}
	updaters := subject.ParseHashes(identity.Annotation(f.Req.Stored(), v1alpha1.AnnotationKeyUpdaters))
	if f.Req.Operation == request.Create {
		updaters = nil
	}
	known := subject.ControllersOf(p.Annotations)
	if writes, err := writesStatus(ctx, f, p.Ref, p.Role, known); writes || err != nil || known.Known() {
		return writes && (len(updaters) == 0 || updaters.Has(hash)), true, err
	}
	switch {
	case f.Req.Operation == request.Create:
		return true, true, nil
	case len(updaters) == 1 && updaters.Has(hash): // as other users may have (KR-13-41)
		is, err = hasStatusRight(ctx, f, p.Ref)
		return is, true, err
	case len(updaters) == 1:
		return false, true, nil
	}
	return false, false, nil
}

// byStatusManager compares field managers, for objects from before Kausality was
// installed (KR-04-04).
func byStatusManager(f *facts.Facts, p *parent.State) (is, decided bool) {
	if f.Options.Identify == facts.IdentifyUserHash || f.Manager == "" || p.Manager == "" {
		return false, false
	}
	return f.Manager == p.Manager, true
}

// writesStatus reports whether the user is recorded to write the status of an object of a role, by
// a hash of 128 bits (KR-13-40), and may be its controller (KR-13-62). A short one that an earlier release recorded counts for
// users who may write the status, since names with that hash can be found (KR-13-41).
func writesStatus(ctx context.Context, f *facts.Facts, object parent.Ref, role parent.Role, known subject.Controllers) (bool, error) {
	if role.Crossplane() && !f.World.MayControl(f.Req.User, role) {
		return false, nil
	}
	if IsRecorded(f, object, known) {
		return true, nil
	}
	if !known.HasHash(f.Hash()) {
		return false, nil
	}
	return hasStatusRight(ctx, f, object)
}

// IsRecorded reports whether the user's id is recorded, or was seen writing the status.
func IsRecorded(f *facts.Facts, object parent.Ref, known subject.Controllers) bool {
	return known.Has(f.ID()) || f.World.StatusWriter(object, f.ID())
}

// MachineryOnly reports whether all changed fields are machinery (KR-01-05).
func MachineryOnly(f *facts.Facts) bool {
	spec, _ := f.Req.Object.Object["spec"].(map[string]any)
	_, modern := spec["crossplane"]
	machinery := parent.Machinery(f.Kind.Role, modern)
	return len(machinery) > 0 && change.OnlySpecFields(f.Changes, machinery)
}

// IsController reports whether the user is the object's own controller: a machine that is recorded to write its
// status, or one that writes under the field manager which does so and that may (KR-01-07, KR-13-04).
func IsController(ctx context.Context, f *facts.Facts) (bool, error) {
	if !f.World.MayControl(f.Req.User, f.Kind.Role) {
		return false, nil
	}
	old := f.Req.OldObject
	if recorded, err := writesStatus(ctx, f, f.Req.Ref(), f.Kind.Role, controllersOf(old)); recorded || err != nil {
		return recorded, err
	}
	shown := parent.WritesStatus(old, f.Manager) || f.Kind.Role == parent.RoleManaged && parent.Provides(f.Req.Object, f.Manager) ||
		subject.IsCrossplaneMachinery(f.Manager) && MachineryOnly(f) || f.Names() || showsProvider(f)
	if !shown {
		return false, nil
	}
	return MayUpdateStatus(ctx, f, f.Req.Ref(), f.Kind.Role)
}

// controllersOf returns the controllers that are recorded on an object, without a copy of all annotations.
func controllersOf(o *unstructured.Unstructured) subject.Controllers {
	return subject.ControllersOf(map[string]string{
		v1alpha1.AnnotationKeyControllerIDs: identity.Annotation(o, v1alpha1.AnnotationKeyControllerIDs),
		v1alpha1.AnnotationKeyControllers:   identity.Annotation(o, v1alpha1.AnnotationKeyControllers),
	})
}

// IsAnyController reports whether a write without a change of desired state
// is by the object's own controller, or by its parent's as far as the object shows.
func IsAnyController(ctx context.Context, f *facts.Facts) bool {
	// Where it cannot be determined, the writer gets no more than a controller does.
	if own, err := IsController(ctx, f); own || err != nil {
		return true
	}
	updaters := subject.ParseHashes(identity.Annotation(f.Req.Stored(), v1alpha1.AnnotationKeyUpdaters))
	return f.HasParent && f.Req.User.IsMachine() && updaters.Has(f.Hash())
}

// MayUpdateStatus reports whether the user may be a controller of objects of a role, and may update the status of an
// object. A field manager is only a claim; this right supports it (KR-13-04).
func MayUpdateStatus(ctx context.Context, f *facts.Facts, object parent.Ref, role parent.Role) (bool, error) {
	if !f.World.MayControl(f.Req.User, role) {
		return false, nil
	}
	return hasStatusRight(ctx, f, object)
}

// hasStatusRight reports whether the user may update the status of an object.
func hasStatusRight(ctx context.Context, f *facts.Facts, object parent.Ref) (bool, error) {
	may, err := f.World.MayUpdateStatus(ctx, f.Req.User, object)
	if err != nil {
		return false, fmt.Errorf("cannot determine whether %s is a controller of %s: %w", f.Req.User.Name, identity.Describe(object), err)
	}
	return may, nil
}

// ControlsParent reports whether the user is a parent's own controller: one that is recorded to write its status.
// Where none is recorded, it is one that writes under the field manager which does so and that may (KR-13-04).
func ControlsParent(ctx context.Context, f *facts.Facts, p *parent.State) (bool, error) {
	known := subject.ControllersOf(p.Annotations)
	if recorded, err := writesStatus(ctx, f, p.Ref, p.Role, known); recorded || err != nil || known.Known() {
		return recorded, err
	}
	shown := f.Manager != "" && f.Manager == p.Manager || p.Role == parent.RoleComposite && IsComposer(f) ||
		p.Role == parent.RoleClaim && subject.IsClaimSync(f.Manager) || f.Member && f.Manager == subject.ManagerApplySet
	if !shown {
		return false, nil
	}
	return MayUpdateStatus(ctx, f, p.Ref, p.Role)
}

// Adopts reports whether the user who adds the first controller reference to an object may do so. The user must be
// the controller of that parent or, where none is recorded, one that may be its controller and may write its status
// (KR-13-63).
func Adopts(ctx context.Context, f *facts.Facts, p *parent.State) (bool, error) {
	if by, err := ControlsParent(ctx, f, p); by || err != nil || subject.ControllersOf(p.Annotations).Known() {
		return by, err
	}
	return MayUpdateStatus(ctx, f, p.Ref, p.Role)
}

// Authorize returns the refusal of an action, given as a clause, for a user without the right to approve (KR-02-13);
// nil where the user may do it.
func Authorize(ctx context.Context, f *facts.Facts, w *outcome.Warnings, what string) *outcome.Refusal {
	ref := f.Req.Ref()
	right, err := RightOf(ctx, f.World, f.Options, f.Req.User, ref)
	switch {
	case err == nil && right.Has:
		if right.Former {
			w.Add(FormerRight(what, f.Req.User.Name))
		}
		return nil
	case err == nil:
		return &outcome.Refusal{Code: 403, Reason: outcome.ReasonApproverForbidden,
			Why:  fmt.Sprintf("%s needs the verb %q on the subresource %s of %s", what, world.VerbApprove, world.SubresourceApproval, identity.Target(ref, f.Kind)),
			Next: "A user who has it can make the change, or " + grantOf(f) + "."}
	case f.Mode == v1alpha1.ModeLog:
		w.Add(fmt.Sprintf("cannot check permission for %s (%v); it passes because the mode is log", what, err))
		return nil
	}
	return &outcome.Refusal{Code: outcome.CodeInternal, Reason: outcome.ReasonApproverForbidden,
		Why: fmt.Sprintf("permission for %s cannot be checked: %v", what, err), Next: "Try again."}
}

// grantOf returns a clause about the right to approve on the object's resource, in the form in which a Role grants
// it.
func grantOf(f *facts.Facts) string {
	plural, _, _ := strings.Cut(f.Kind.Resource, ".")
	if plural == "" {
		return "a Role can grant it"
	}
	return fmt.Sprintf("a Role can grant it with resources: [%s/%s]", plural, world.SubresourceApproval)
}

// Right to approve.
type Right struct {
	// Has it.
	Has bool
	// Former: the user has it by the verb on the resource, which ApproverRBACOn does not accept.
	Former bool
}

// RightOf returns the right of a user to approve on an object (KR-02-13).
func RightOf(ctx context.Context, w world.World, o *facts.Options, user subject.User, object parent.Ref) (Right, error) {
	may, err := w.MayApprove(ctx, user, object, world.SubresourceApproval)
	if may || err != nil || o.ApproverRBAC != facts.ApproverRBACResource {
		return Right{Has: may}, err
	}
	may, err = w.MayApprove(ctx, user, object, "")
	return Right{Has: may, Former: may}, err
}

// FormerRight returns the warning for a user with Right.Former, about the action that the right is used for.
func FormerRight(what, user string) string {
	return fmt.Sprintf("%s needs the verb %q on the subresource %s with --approver-rbac=true; %s has it on the resource, which roles with all verbs contain",
		what, world.VerbApprove, world.SubresourceApproval, user)
}
