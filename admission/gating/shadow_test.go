package gating

import (
	"testing"

	"github.com/kausality-io/function-kausality/admission/external"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// In mode log, the gate names what it would hold: a difference that appeared where nothing
// differed at the same generation (KR-08-55).
func TestShadow(t *testing.T) {
	inLog := func(g *Managed) { g.Mode = v1alpha1.ModeLog }
	for name, tc := range map[string]struct {
		reason   string
		mr, xr   []fx.Mod
		mode     func(*Managed)
		equalAt  int64
		withheld bool
		equal    int64
	}{
		"Equal":        {reason: "nothing differs", equal: 3},
		"Drift":        {reason: "it differs since", mr: []fx.Mod{fx.Tampered}, equalAt: 3, withheld: true, equal: 3},
		"First":        {reason: "it may be a change that is not carried out yet", mr: []fx.Mod{fx.Tampered}},
		"Changed":      {reason: "and so it may after another change", mr: []fx.Mod{fx.Tampered}, equalAt: 2, equal: 2},
		"Approved":     {reason: "an approval would open the gate", mr: []fx.Mod{fx.Tampered}, xr: []fx.Mod{approving(`"Update"`, "always")}, equalAt: 3, equal: 3},
		"Incomparable": {reason: "nothing shows", mr: []fx.Mod{fx.Set(map[string]any{}, "status", "atProvider")}, equalAt: 2, equal: 2},
		"Paused":       {reason: "nothing is written", mr: []fx.Mod{fx.Tampered, fx.Annotate("crossplane.io/paused", "true")}, equalAt: 3},
		"Observed":     {reason: "nor by an author's Observe", mr: []fx.Mod{fx.Tampered, fx.Policies("Observe")}, equalAt: 3},
		"Deleted":      {reason: "its deletion is another matter", mr: []fx.Mod{fx.Tampered, fx.Deleting}, equalAt: 3},
		"Enforced":     {reason: "the gate holds it", mr: []fx.Mod{fx.Tampered}, mode: func(g *Managed) { g.Mode = v1alpha1.ModeEnforce }, equalAt: 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := gatingOf(fx.With(fx.Unmasked(), tc.mr...), fx.With(fx.Composite(), tc.xr...))
			if inLog(&g); tc.mode != nil {
				tc.mode(&g)
			}
			withheld, equal := g.Shadow(tc.equalAt)
			if (withheld != nil) != tc.withheld || equal != tc.equal {
				t.Errorf("%s: %+v, equal at %d", tc.reason, withheld, equal)
			}
		})
	}
}

// Of an object of another system, the gate would hold what is about no change of it
// (KR-08-55).
func TestShadowForeign(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		mode   v1alpha1.Mode
		view   func(*external.View)
		want   bool
	}{
		"Foreign":  {reason: "another commit", view: func(v *external.View) { v.Foreign = true }, want: true},
		"Destroys": {reason: "a destruction", view: func(v *external.View) { v.Verbs = []v1alpha1.Verb{verb.Destroy} }, want: true},
		"Changed":  {reason: "what its author changed would pass", view: func(*external.View) {}},
		"Free":     {reason: "there is no gate to keep", view: func(v *external.View) { v.Foreign, v.State = true, external.StateFree }},
		"Stale":    {reason: "it is not known yet", view: func(v *external.View) { v.Foreign, v.Current = true, false }},
		"Enforced": {reason: "the gate holds it", mode: v1alpha1.ModeEnforce, view: func(v *external.View) { v.Foreign = true }},
	} {
		t.Run(name, func(t *testing.T) {
			v := waiting()
			v.State, v.Masked = external.StateOpen, false
			tc.view(&v)
			g := externalGating(fx.Terraform(nil), v)
			if g.Mode = v1alpha1.ModeLog; tc.mode != "" {
				g.Mode = tc.mode
			}
			if got := g.Shadow(); (got != nil) != tc.want {
				t.Errorf("%s: %+v", tc.reason, got)
			}
		})
	}
}
