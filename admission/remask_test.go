package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// GitOps writes the author's value over the mask of a Terraform: the mask is put
// back in the same write, which is no change; what else it changes is one.
func TestRemask(t *testing.T) {
	stored := fx.With(fx.Terraform(nil), fx.Annotate(v1alpha1.AnnotationKeyExternalAuthor, `"auto"`), fx.Set("", "spec", "approvePlan"))
	auto := fx.Set("auto", "spec", "approvePlan")
	cases := map[string]struct {
		reason string
		change []fx.Mod
		opts   Options
		fields map[string]any
		want   outcome.Reason
	}{
		"Again": {reason: "the author's value", change: []fx.Mod{auto}, opts: enforced(),
			fields: map[string]any{"/spec/approvePlan": ""}, want: outcome.ReasonNoChange},
		"Same": {reason: "what is stored", change: []fx.Mod{fx.Set("", "spec", "approvePlan")}, opts: enforced(), want: outcome.ReasonNoChange},
		"Another": {reason: "another value is its author's", change: []fx.Mod{fx.Set("disable", "spec", "approvePlan")}, opts: enforced(),
			want: outcome.ReasonNoParent},
		"Both": {reason: "with something else", change: []fx.Mod{auto, fx.Set("./b", "spec", "path")}, opts: enforced(),
			fields: map[string]any{"/spec/approvePlan": ""}, want: outcome.ReasonNoParent},
		"Log": {reason: "log mode masks nothing", change: []fx.Mod{auto}, opts: Options{}, want: outcome.ReasonNoChange},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{}.world(), tc.opts, by(byCrossplane(Update, stored, tc.change...), fx.Alice, ""))
			if !d.Allowed || d.Reason != tc.want {
				t.Errorf("%s: %+v", tc.reason, d)
			}
			if diff := cmp.Diff(tc.fields, d.Fields); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if moved := d.Trace != nil; moved != (tc.want != outcome.ReasonNoChange) {
				t.Errorf("%s: trace %v", tc.reason, d.Trace)
			}
		})
	}
}
