package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// owners of an object, in place of its own.
func owners(list ...any) fx.Mod {
	return func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "metadata", "ownerReferences")
		if len(list) > 0 {
			_ = unstructured.SetNestedSlice(o.Object, list, "metadata", "ownerReferences")
		}
	}
}

func owner(name, uid string, controller bool) map[string]any {
	o := map[string]any{"apiVersion": "example.org/v1", "kind": "XDatabase", "name": name, "uid": uid}
	if controller {
		o["controller"] = true
	}
	return o
}

// The controller reference of a known child stays while its parent exists (KR-13-13).
func TestParentIsKept(t *testing.T) {
	tenant := subject.User{Name: "system:serviceaccount:default:ci"}
	away, elsewhere, plain := owners(), owners(owner("other", "other-uid", true)), owners(owner("db", "xr-uid", false))
	cases := map[string]struct {
		reason string
		who    subject.User
		as     string
		mod    []fx.Mod
		child  []fx.Mod
		xr     []fx.Mod
		mode   v1alpha1.Mode
		opts   func(*Options)
		gone   bool
		err    error
		want   []any // nil where the write stays as it is
		warns  bool
	}{
		"Away": {reason: "a removed one is put back", who: fx.Alice, mod: []fx.Mod{away},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Elsewhere": {reason: "and a redirected one", who: fx.Alice, mod: []fx.Mod{elsewhere},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"NotControlling": {reason: "and one that is a plain owner by now", who: fx.Alice, mod: []fx.Mod{plain},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"OtherUID": {reason: "an object of that name is another one", who: fx.Alice, mod: []fx.Mod{owners(owner("db", "other", true))},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"OthersStay": {reason: "plain owners are free", who: fx.Alice,
			mod:  []fx.Mod{owners(owner("x", "x", false), owner("other", "o", true))},
			want: []any{owner("x", "x", false), owner("db", "xr-uid", true)}, warns: true},
		"WithSpec": {reason: "together with a change of the spec", who: fx.Alice, mod: []fx.Mod{away, fx.Resize("l")},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Machine": {reason: "another controller", who: tenant, mod: []fx.Mod{elsewhere},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Own": {reason: "the object's own controller", who: fx.Provider, mod: []fx.Mod{away},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"LastUpdater": {reason: "having changed the child last shows nothing", who: tenant, mod: []fx.Mod{away},
			child: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyUpdaters, tenant.Hash())}, xr: []fx.Mod{fx.Controllers()},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"ManagerAlone": {reason: "nor has a field manager", who: tenant, as: fx.ComposedManager, mod: []fx.Mod{away},
			xr: []fx.Mod{fx.Controllers()}, want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Unreadable": {reason: "nothing shows that the parent is gone", who: fx.Alice, mod: []fx.Mod{away}, err: errors.New("timeout"),
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Deleting": {reason: "the parent is still there", who: fx.Alice, mod: []fx.Mod{away}, xr: []fx.Mod{fx.Deleting},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Frozen": {reason: "a freeze holds in mode log", who: fx.Alice, mod: []fx.Mod{away}, mode: v1alpha1.ModeLog,
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")}, want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Log": {reason: "mode log changes nothing", who: fx.Alice, mod: []fx.Mod{away}, mode: v1alpha1.ModeLog, warns: true},
		"Stale": {reason: "a stored annotation was about another write", who: fx.Alice, mod: []fx.Mod{away},
			child: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyParent, "none")}, want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Meant": {reason: "a user means it", who: fx.Alice,
			mod: []fx.Mod{away, fx.Annotate(v1alpha1.AnnotationKeyParent, "none")}},
		"MeantElsewhere": {reason: "as above", who: fx.Alice,
			mod: []fx.Mod{elsewhere, fx.Annotate(v1alpha1.AnnotationKeyParent, "other-uid")}},
		"MeantAnother": {reason: "another reference than this", who: fx.Alice,
			mod:  []fx.Mod{elsewhere, fx.Annotate(v1alpha1.AnnotationKeyParent, "none")},
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"Collector":  {reason: "the garbage collector orphans by it", who: fx.Collector, mod: []fx.Mod{away}},
		"Controller": {reason: "the parent's recorded controller", who: fx.Crossplane, mod: []fx.Mod{elsewhere}},
		"Gone":       {reason: "the parent does not exist any more", who: fx.Alice, mod: []fx.Mod{away}, gone: true},
		"GoneElsewhere": {reason: "another parent is added all the same (KR-13-63)", who: fx.Alice, mod: []fx.Mod{elsewhere}, gone: true,
			want: []any{owner("db", "xr-uid", true)}, warns: true},
		"GoneElsewhereMeant": {reason: "which a user can mean", who: fx.Alice,
			mod: []fx.Mod{elsewhere, fx.Annotate(v1alpha1.AnnotationKeyParent, "other-uid")}, gone: true},
		"Same": {reason: "a change of other metadata", who: fx.Alice, mod: []fx.Mod{fx.Annotate("example.org/note", "x")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := setting{xr: tc.xr}
			w := s.world()
			if tc.gone {
				delete(w.live, "XDatabase/db")
			}
			w.err = tc.err
			o := statusRights(nil, fx.Crossplane)
			if tc.mode != "" {
				o.DefaultMode = tc.mode
			}
			req := by(byCrossplane(Update, fx.With(fx.Instance(), tc.child...), tc.mod...), tc.who, tc.as)
			d := decide(t, w, o, req)
			got, _ := d.Fields[ownersPointer].([]any)
			if diff := cmp.Diff(tc.want, got); diff != "" || !d.Allowed || (len(d.Warnings) > 0) != tc.warns {
				t.Errorf("%s: allowed %t, warnings %q: -want, +got:\n%s", tc.reason, d.Allowed, d.Warnings, diff)
			}
		})
	}
}

// Where approver RBAC is on, declaring another parent needs the verb (KR-13-13).
func TestParentNeedsTheVerb(t *testing.T) {
	for _, may := range []bool{true, false} {
		o := stubs{Options: enforced()}
		o.mayApprove = func(context.Context, subject.User, parent.Ref) (bool, error) { return may, nil }
		req := by(byCrossplane(Update, fx.Instance(), owners(), fx.Annotate(v1alpha1.AnnotationKeyParent, v1alpha1.ParentNone)), fx.Alice, "kubectl")
		d := decide(t, setting{}.world(), o, req)
		if d.Allowed != may || !may && d.Reason != outcome.ReasonApproverForbidden || d.Fields != nil {
			t.Errorf("may %t: allowed %t, %s: %s", may, d.Allowed, d.Reason, d.Message)
		}
		req = by(byCrossplane(Update, fx.Instance(), owners()), fx.Alice, "kubectl")
		d = decide(t, setting{}.world(), o, req)
		if !d.Allowed || !strings.Contains(strings.Join(d.Warnings, ""), `needs the verb "approve"`) {
			t.Errorf("without the annotation: allowed %t, %q", d.Allowed, d.Warnings)
		}
	}
}

// An object without a trace of a kind that is not Crossplane's is not known (KR-13-13).
func TestParentOfUnknownChild(t *testing.T) {
	d, rs := fx.DeploymentAndReplicaSet()
	for name, traced := range map[string]bool{"Traced": true, "Untraced": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.add(d)
			child := rs
			if traced {
				child = fx.With(rs, fx.Annotate(v1alpha1.AnnotationKeyTrace, "[]"))
			}
			got := decide(t, w, enforced(), by(byCrossplane(Update, child, owners()), fx.Alice, "kubectl"))
			if (got.Fields[ownersPointer] != nil) != traced {
				t.Errorf("put back: %v", got.Fields)
			}
		})
	}
}
