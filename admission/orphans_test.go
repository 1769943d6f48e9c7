package admission

import (
	"testing"

	"github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// What a policy leaves behind is marked before the composite's deletion is allowed,
// and not where nothing of it is masked (KR-08-11).
func TestOrphansOfPolicy(t *testing.T) {
	set := policySet(t, xrPolicy("p", `deleting: {allow: [{relation: ControllerChild, verbs: ["*"]}]}`))
	cases := map[string]struct {
		reason string
		mods   []fixture.Mod
		want   int
	}{
		"Masked": {reason: "its deletion would be refused otherwise", want: 1},
		"Marked": {reason: "it is marked already", mods: []fixture.Mod{fixture.Annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)}},
		"Log": {reason: "nothing is masked in mode log", mods: []fixture.Mod{fixture.Annotate(v1alpha1.AnnotationKeyMode, "log"),
			fixture.Policies("*"), fixture.Unannotate(v1alpha1.AnnotationKeyManagementPolicies)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mr := fixture.With(rdsInstance(xdatabase()), tc.mods...)
			p := newPlay(t, set, xdatabase())
			p.w.managed = []*parent.State{parent.Sum(mr, parent.RoleManaged)}
			xr := xdatabase()
			d, err := p.e.Evaluate(t.Context(), &Request{Operation: Delete, Kind: xr.GroupVersionKind(), OldObject: xr, User: fixture.Alice, Time: fixture.Noon})
			if err != nil || !d.Allowed || len(d.Orphans) != tc.want {
				t.Errorf("%s: allowed %t, orphans %v, %v: %s", tc.reason, d.Allowed, d.Orphans, err, d.Message)
			}
		})
	}
}
