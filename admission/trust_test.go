package admission

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// statusRights are enforcing Options where the users named may update statuses.
func statusRights(err error, users ...subject.User) stubs {
	o := stubs{Options: enforced()}
	o.mayUpdateStatus = func(_ context.Context, u subject.User, _ parent.Ref) (bool, error) {
		for _, may := range users {
			if may.Name == u.Name {
				return true, err
			}
		}
		return false, err
	}
	return o
}

// A field manager identifies a controller only together with the permission to
// update the status (KR-13-04).
func TestFieldManagersAreClaims(t *testing.T) {
	tenant := subject.User{Name: "system:serviceaccount:default:ci"}
	composed := subject.ComposedManager("db", fx.Composite().GroupVersionKind().GroupKind())
	unrecorded := []fx.Mod{fx.Controllers()}
	wrote := fx.Set([]any{map[string]any{"manager": "provider", "operation": "Update", "subresource": "status", "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{"f:status": map[string]any{}}}}, "metadata", "managedFields")
	size := fx.Set("xl", "spec", "size")
	revision := fx.Set("r9", "spec", "crossplane", "compositionRevisionRef", "name")
	cases := map[string]struct {
		reason string
		xr     []fx.Mod
		opts   stubs
		req    *Request
		want   outcome.Class
		err    bool
	}{
		"Provider": {reason: "the manager shows it, the permission bears it out", opts: statusRights(nil, fx.Provider),
			req: by(byCrossplane(Update, fx.With(fx.Instance(), unrecorded[0], wrote), fx.Resize("l")), fx.Provider, "provider"), want: outcome.ClassSelf},
		"TenantAsProvider": {reason: "the manager alone is the client's claim", opts: statusRights(nil, fx.Provider),
			req: by(byCrossplane(Update, fx.With(fx.Instance(), unrecorded[0], wrote), fx.Resize("l")), tenant, "provider"), want: outcome.ClassNewOrigin},
		"Machinery": {reason: "Crossplane before its first status write", opts: statusRights(nil, fx.Crossplane),
			req: by(byCrossplane(Update, fx.With(fx.Composite(), unrecorded...), revision), fx.Crossplane, "crossplane"), want: outcome.ClassSelf},
		"TenantAsMachinery": {reason: "an intent of its user", opts: statusRights(nil, fx.Crossplane),
			req: by(byCrossplane(Update, fx.With(fx.Composite(), unrecorded...), revision), tenant, "crossplane"), want: outcome.ClassNewOrigin},
		"TenantAsMachineryWritesSpec": {reason: "as above", opts: statusRights(nil, fx.Crossplane),
			req: by(byCrossplane(Update, fx.Composite(), size), tenant, "apiextensions.crossplane.io/composite"), want: outcome.ClassNewOrigin},
		"Composer": {reason: "where the composite has no record yet", xr: unrecorded, opts: statusRights(nil, fx.Crossplane),
			req: byCrossplane(Update, fx.Instance(), fx.Resize("l")), want: outcome.ClassDrift},
		"TenantAsComposer": {reason: "where the composite has no record yet", xr: unrecorded, opts: statusRights(nil, fx.Crossplane),
			req: by(byCrossplane(Update, fx.Instance(), fx.Resize("l")), tenant, composed), want: outcome.ClassNewOrigin},
		"Unknown": {reason: "a permission that cannot be checked decides nothing", opts: statusRights(errors.New("timeout"), fx.Provider),
			req: by(byCrossplane(Update, fx.With(fx.Instance(), unrecorded[0], wrote), fx.Resize("l")), fx.Provider, "provider"), err: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := tc.opts.of(setting{xr: tc.xr}.world())
			d, err := e.Evaluate(t.Context(), tc.req)
			if (err != nil) != tc.err || d.Class != tc.want {
				t.Errorf("%s: want class %q, got %q (%s), %v", tc.reason, tc.want, d.Class, d.Reason, err)
			}
		})
	}
}

// A user whose hash is that of a controller is not this controller: it is identified by
// 128 bits (KR-13-40). What an earlier release recorded by hash counts for users who may
// update the status (KR-13-41).
func TestControllersBySameHash(t *testing.T) {
	twin := subject.User{Name: "system:serviceaccount:default:ci-1426837"}
	if twin.Hash() != fx.Crossplane.Hash() {
		t.Fatalf("the hash is %s, not %s", twin.Hash(), fx.Crossplane.Hash())
	}
	old := fx.Unannotate(v1alpha1.AnnotationKeyControllerIDs)
	composed, apply := fx.ComposedManager, byCrossplane(Update, fx.Instance(), fx.Resize("l"))
	machinery := func(o *unstructured.Unstructured) *Request {
		return byCrossplane(Update, o, fx.Set("r9", "spec", "crossplane", "compositionRevisionRef", "name"))
	}
	for name, tc := range map[string]struct {
		reason  string
		xr      []fx.Mod
		req     *Request
		manager string
		// controller is what Crossplane's write is; that of the other user is an intent of its own.
		controller outcome.Class
	}{
		"Composed":       {reason: "under Crossplane's field manager", req: apply, manager: composed, controller: outcome.ClassDrift},
		"ComposedBefore": {reason: "recorded by an earlier release", xr: []fx.Mod{old}, req: apply, manager: composed, controller: outcome.ClassDrift},
		"Updater":        {reason: "as the updater of the child", req: apply, manager: "other", controller: outcome.ClassDrift},
		"UpdaterBefore":  {reason: "recorded by an earlier release", xr: []fx.Mod{old}, req: apply, manager: "other", controller: outcome.ClassDrift},
		"OnlyUpdater":    {reason: "no controller is recorded", xr: []fx.Mod{fx.Controllers()}, req: apply, manager: "other", controller: outcome.ClassDrift},
		"Self":           {reason: "a composite's machinery", req: machinery(fx.Composite()), manager: "other", controller: outcome.ClassSelf},
		"SelfBefore": {reason: "recorded by an earlier release", req: machinery(fx.With(fx.Composite(), old)), manager: "other",
			controller: outcome.ClassSelf},
	} {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: tc.xr}.world()
			for user, want := range map[*subject.User]outcome.Class{&twin: outcome.ClassNewOrigin, &fx.Crossplane: tc.controller} {
				req := *tc.req
				if d := decide(t, w, statusRights(nil, fx.Crossplane), by(&req, *user, tc.manager)); d.Class != want {
					t.Errorf("%s: of %s want %s, got %s (%s)", tc.reason, user.Name, want, d.Class, d.Reason)
				}
			}
		})
	}
	unchecked := decide(t, setting{xr: []fx.Mod{old}}.world(), statusRights(errors.New("timeout")), by(apply, fx.Crossplane, "other"))
	if unchecked.Allowed || unchecked.Reason != outcome.ReasonParentUnreadable {
		t.Errorf("a permission that cannot be checked decides: %s", unchecked.Reason)
	}
}

// What a Composition may set is not accepted from another user under its field
// manager, approver RBAC or not (KR-13-04).
func TestComposedAnnotations(t *testing.T) {
	tenant := subject.User{Name: "system:serviceaccount:default:ci"}
	composed := subject.ComposedManager("db", fx.Composite().GroupVersionKind().GroupKind())
	for name, who := range map[string]subject.User{"Person": fx.Alice, "ServiceAccount": tenant, "Crossplane": fx.Crossplane} {
		t.Run(name, func(t *testing.T) {
			o := statusRights(nil, fx.Crossplane)
			o.mayApprove = func(context.Context, subject.User, parent.Ref) (bool, error) { return false, nil }
			req := by(byCrossplane(Update, fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan),
				fx.Annotate(v1alpha1.AnnotationKeyMode, string(v1alpha1.ModeLog)), fx.Annotate(v1alpha1.AnnotationKeyHeld, "{}")), who, composed)
			d := decide(t, setting{}.world(), o, req)
			got := apply(req.Object, d).GetAnnotations()
			for _, key := range []string{v1alpha1.AnnotationKeyDeletion, v1alpha1.AnnotationKeyMode, v1alpha1.AnnotationKeyHeld} {
				if (got[key] != "") != (who.Name == fx.Crossplane.Name) {
					t.Errorf("%s is %q", key, got[key])
				}
			}
		})
	}
}

// deletedWorld knows that the parent was deleted.
type deletedWorld struct{ *memoryWorld }

func (deletedWorld) Parent(context.Context, parent.Ref, bool) (*parent.State, error) {
	return nil, ErrDeleted
}

// A parent that does not exist is no parent that was deleted (KR-13-03).
func TestParentNotFoundIsNoDeletion(t *testing.T) {
	policy := policySet(t, xrPolicy("p", `deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}, {relation: External, verbs: [Delete]}]}`))
	orphans := policySet(t, xrPolicy("p", `deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}]}`))
	for name, tc := range map[string]struct {
		policies *allowance.Set
		deleted  bool
		approves bool
		orphans  bool
		want     outcome.Reason
	}{
		"NotFound":        {policies: policy, want: outcome.ReasonExternalDeletion},
		"Deleted":         {policies: policy, deleted: true, approves: true, want: outcome.ReasonExternalDeletion},
		"OrphansNotFound": {policies: orphans, want: outcome.ReasonExternalDeletion},
		"OrphansDeleted":  {policies: orphans, deleted: true, orphans: true, want: outcome.ReasonParentNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			mr := rdsInstance(xdatabase())
			p := newPlay(t, tc.policies, mr)
			if tc.deleted {
				p.e.World = deletedWorld{p.w}
			}
			d, err := p.e.Evaluate(t.Context(), &Request{Operation: Delete, Kind: mr.GroupVersionKind(), OldObject: mr, User: fx.Collector, Time: fx.Noon})
			if err != nil || d.Reason != tc.want || (d.Approve != nil) != tc.approves || (len(d.Orphans) > 0) != tc.orphans {
				t.Errorf("want %s, approving %t; got %s, %+v, %v, %v: %s", tc.want, tc.approves, d.Reason, d.Approve, d.Orphans, err, d.Message)
			}
		})
	}
}

// A composed apply to an object whose owner was removed is about the composite that it
// names (KR-13-03).
func TestOwnerRemoved(t *testing.T) {
	owners := fx.Instance().GetOwnerReferences()
	orphan := fx.With(fx.Instance(), func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
	adopt := func(o *unstructured.Unstructured) { o.SetOwnerReferences(owners) }
	for name, tc := range map[string]struct {
		req  *Request
		want outcome.Reason
	}{
		"Composed":        {req: byCrossplane(Update, orphan, adopt, fx.Resize("l")), want: outcome.ReasonDrift},
		"ComposedNoOwner": {req: byCrossplane(Update, orphan, fx.Resize("l")), want: outcome.ReasonNoParent},
		"User":            {req: by(byCrossplane(Update, orphan, adopt, fx.Resize("l")), fx.Alice, "kubectl"), want: outcome.ReasonNoParent},
	} {
		t.Run(name, func(t *testing.T) {
			if d := decide(t, setting{}.world(), enforced(), tc.req); d.Reason != tc.want {
				t.Errorf("want %s, got %s (%s)", tc.want, d.Reason, d.Message)
			}
		})
	}
}

// Another composite's field manager, and a person under the very manager of the parent,
// are no composer, on a creation either (KR-13-04).
func TestComposedAnnotationsOfCreations(t *testing.T) {
	composed := subject.ComposedManager("db", fx.Composite().GroupVersionKind().GroupKind())
	for name, tc := range map[string]struct {
		user    subject.User
		manager string
		want    bool
	}{
		"OtherManager":   {user: fx.Alice, manager: "apiextensions.crossplane.io/composed/x"},
		"OtherByMachine": {user: fx.Crossplane, manager: "apiextensions.crossplane.io/composed/x"},
		"Person":         {user: fx.Alice, manager: composed},
		"Crossplane":     {user: fx.Crossplane, manager: composed, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := statusRights(nil, fx.Crossplane, fx.Alice)
			req := by(byCrossplane(Create, fx.With(fx.Unmasked(), fx.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan),
				fx.Annotate(v1alpha1.AnnotationKeyHeld, "{}"))), tc.user, tc.manager)
			fresh := setting{xr: []fx.Mod{fx.Unsettled, fx.Controllers()}}
			d := decide(t, fresh.world(), o, req)
			got := apply(req.Object, d).GetAnnotations()
			if kept := got[v1alpha1.AnnotationKeyDeletion] != "" && got[v1alpha1.AnnotationKeyHeld] != ""; kept != tc.want {
				t.Errorf("want kept: %t, got %v", tc.want, got)
			}
		})
	}
}
