package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A write of a status leaves our metadata as it is stored, and that of others alone
// (KR-13-16).
func TestKeepMetadata(t *testing.T) {
	stored := fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true", "example.org/a", "1"))
	cases := map[string][]fx.Mod{
		"Nothing":   nil,
		"Added":     {fx.Annotate(v1alpha1.AnnotationKeyClaims, "[]", v1alpha1.AnnotationKeyApprovePrefix+"1", "once")},
		"Changed":   {fx.Annotate(v1alpha1.AnnotationKeyTrace, "[]")},
		"Removed":   {fx.Unannotate(v1alpha1.AnnotationKeyFreeze, v1alpha1.AnnotationKeyGate)},
		"All":       {fx.Set(map[string]any{}, "metadata", "annotations")},
		"Owners":    {owners()},
		"Elsewhere": {owners(owner("x", "x", false), owner("other", "other-uid", true))},
	}
	for name, mods := range cases {
		t.Run(name, func(t *testing.T) {
			req := byCrossplane(Update, stored, append(mods, fx.Annotate("example.org/a", "2"))...)
			before := copyRequest(req)
			d := KeepMetadata(req)
			if diff := cmp.Diff(before, req); diff != "" {
				t.Errorf("the request is modified:\n%s", diff)
			}
			got := apply(req.Object, d)
			want, have := stored.GetAnnotations(), got.GetAnnotations()
			if have["example.org/a"] != "2" {
				t.Errorf("an annotation of another domain is %q", have["example.org/a"])
			}
			for _, m := range []map[string]string{want, have} {
				for k := range m {
					if v1alpha1.IsKausality(k) && want[k] != have[k] {
						t.Errorf("%s is %q, was %q", k, have[k], want[k])
					}
				}
			}
			if name == "Nothing" && (d.Annotations != nil || d.Fields != nil) {
				t.Errorf("edits of nothing: %+v", d)
			}
			if list := got.GetOwnerReferences(); list[len(list)-1].UID != "xr-uid" {
				t.Errorf("the controller reference is %+v", list)
			}
		})
	}
}

// TestKeepMembership: nor do they change the labels by which a child names its instance (KR-18-04).
func TestKeepMembership(t *testing.T) {
	_, c := instanceAndChild()
	bare := fx.With(c, fx.Set(map[string]any{"app": "shop"}, "metadata", "labels"))
	for name, tc := range map[string]struct {
		of   *unstructured.Unstructured
		mod  fx.Mod
		kept bool
	}{
		"Changed": {of: c, mod: label("kro.run/instance-id", "other"), kept: true},
		"Added":   {of: bare, mod: member, kept: true},
		"Other":   {of: c, mod: label("app", "web")},
	} {
		t.Run(name, func(t *testing.T) {
			d := KeepMetadata(byCrossplane(Update, tc.of, tc.mod))
			got, kept := d.Fields[labelsPointer].(map[string]any)
			assert.Equal(t, tc.kept, kept)
			for _, key := range parent.MembershipLabels() {
				if was, had := tc.of.GetLabels()[key]; kept && had {
					assert.Equal(t, was, got[key])
				} else {
					assert.NotContains(t, got, key)
				}
			}
		})
	}
}
