package admission

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestAdoption covers KR-13-63: only the controller of a parent makes it the parent of what exists.
func TestAdoption(t *testing.T) {
	tenant := subject.User{Name: "system:serviceaccount:default:ci"}
	mine := owners(owner("db", "xr-uid", true))
	cases := map[string]struct {
		reason string
		who    subject.User
		as     string
		mods   []fx.Mod
		xr     []fx.Mod
		mode   v1alpha1.Mode
		err    error
		free   bool // no approval on the parent counts
		stays  bool // the reference
		warns  bool
	}{
		"Editor":     {reason: "a claim of its writer", who: fx.Alice, warns: true},
		"Machine":    {reason: "of any machine, too", who: tenant, warns: true},
		"Manager":    {reason: "under the manager of a composed apply", who: tenant, as: fx.ComposedManager, warns: true},
		"Unrecorded": {reason: "where no controller is recorded, a machine that may write statuses", who: tenant, xr: []fx.Mod{fx.Controllers()}, warns: true},
		"Provider":   {reason: "nor its own provider", who: fx.Provider, as: "provider", warns: true},
		"Crossplane": {reason: "the parent's controller", who: fx.Crossplane, as: fx.ComposedManager, stays: true},
		"First":      {reason: "before any status of it", who: fx.Crossplane, as: fx.ComposedManager, xr: []fx.Mod{fx.Controllers()}, stays: true},
		"Meant":      {reason: "what is declared as meant", who: fx.Alice, mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyParent, "xr-uid")}, stays: true},
		"MeantOther": {reason: "for another parent", who: fx.Alice, mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyParent, "other")}, warns: true},
		"Log":        {reason: "in mode log it is a warning", who: fx.Alice, mode: v1alpha1.ModeLog, stays: true, warns: true},
		"Unreadable": {reason: "nothing shows that it is its controller", who: fx.Crossplane, as: fx.ComposedManager, err: errors.New("timeout"), warns: true},
		"Unguarded":  {reason: "no approval on it counts", who: fx.Alice, free: true, stays: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := stubs{Options: enforced(), guarded: func(*parent.State) bool { return !tc.free }}
			if tc.mode != "" {
				s.DefaultMode = tc.mode
			}
			w := setting{xr: tc.xr}.world()
			w.err = tc.err
			e := evaluator(s, w)
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, fx.With(fx.Instance(), owners()), append(tc.mods, mine)...), tc.who, tc.as))
			if err != nil {
				t.Fatal(err)
			}
			left, out := d.Fields[ownersPointer]
			if !d.Allowed || out == tc.stays || out && !cmp.Equal(left, []any{}) {
				t.Errorf("%s: allowed %t, owners %v", tc.reason, d.Allowed, left)
			}
			if warned := strings.Contains(strings.Join(d.Warnings, "\n"), "only the controller of"); warned != tc.warns {
				t.Errorf("%s: warnings %q", tc.reason, d.Warnings)
			}
		})
	}
}

// TestResourceName covers KR-13-65: which resource of a composite an object is, only Crossplane writes.
func TestResourceName(t *testing.T) {
	const key = v1alpha1.AnnotationKeyCompositionResourceName
	cases := map[string]struct {
		reason string
		who    subject.User
		as     string
		was    []fx.Mod
		to     fx.Mod
		mode   v1alpha1.Mode
		want   string // what is put back; "-" for none, "" for the write as it is
	}{
		"Changed": {reason: "by an editor", who: fx.Alice, to: fx.Annotate(key, "cache"), want: "instance"},
		"Removed": {reason: "by an editor", who: fx.Alice, to: fx.Unannotate(key), want: "instance"},
		"Added":   {reason: "by an editor", who: fx.Alice, was: []fx.Mod{fx.Unannotate(key)}, to: fx.Annotate(key, "cache"), want: "-"},
		"Manager": {reason: "under Crossplane's manager", who: subject.User{Name: "system:serviceaccount:default:ci"}, as: fx.ComposedManager,
			to: fx.Annotate(key, "cache"), want: "instance"},
		"Provider":   {reason: "by its provider", who: fx.Provider, as: "provider", to: fx.Annotate(key, "cache"), want: "instance"},
		"Crossplane": {reason: "by Crossplane", who: fx.Crossplane, as: fx.ComposedManager, to: fx.Annotate(key, "cache")},
		"Log":        {reason: "in mode log it is a warning", who: fx.Alice, to: fx.Annotate(key, "cache"), mode: v1alpha1.ModeLog},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := enforced()
			if tc.mode != "" {
				o.DefaultMode = tc.mode
			}
			d := decide(t, setting{}.world(), o, by(byCrossplane(Update, fx.With(fx.Instance(), tc.was...), tc.to), tc.who, tc.as))
			got, edited := d.Annotations[key]
			back := ""
			if edited {
				if back = "-"; got != nil {
					back = *got
				}
			}
			if !d.Allowed || back != tc.want {
				t.Errorf("%s: put back %q, want %q", tc.reason, back, tc.want)
			}
			if warned := strings.Contains(strings.Join(d.Warnings, "\n"), key); warned != (tc.want != "" || tc.mode != "") {
				t.Errorf("%s: warnings %q", tc.reason, d.Warnings)
			}
		})
	}
}

// An approval by resource name is about the name in Crossplane's own apply, and in no other request (KR-13-65).
func TestResourceNameOfTheApply(t *testing.T) {
	const key = v1alpha1.AnnotationKeyCompositionResourceName
	approved := fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Instance","resource":"cache","mode":"always"}]`)
	w := setting{xr: []fx.Mod{approved}}.world()
	stored := fx.With(fx.Instance(), fx.Annotate(key, "cache")) // written while nothing reviewed it
	if d := decide(t, w, enforced(), byCrossplane(Update, stored, fx.Annotate(key, "instance"), fx.Resize("l"))); d.Allowed || d.Reason != outcome.ReasonDrift {
		t.Errorf("an approval was borrowed: %+v", outcomeOf(d))
	}
	if d := decide(t, w, enforced(), byCrossplane(Update, fx.Instance(), fx.Annotate(key, "cache"), fx.Resize("l"))); !d.Allowed {
		t.Errorf("Crossplane's own apply names it: %s", d.Message)
	}
}
