package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// GitOps writes the author's value over the mask of a Terraform: the mask is put
// back in the same write, which is no change; what else it changes is one.
func TestRemask(t *testing.T) {
	stored := with(terraformObject(nil), annotate(v1alpha1.AnnotationKeyExternalAuthor, `"auto"`), set("", "spec", "approvePlan"))
	auto := set("auto", "spec", "approvePlan")
	cases := map[string]struct {
		reason string
		change []mod
		opts   Options
		fields map[string]any
		want   Reason
	}{
		"Again": {reason: "the author's value", change: []mod{auto}, opts: enforced(),
			fields: map[string]any{"/spec/approvePlan": ""}, want: ReasonNoChange},
		"Same": {reason: "what is stored", change: []mod{set("", "spec", "approvePlan")}, opts: enforced(), want: ReasonNoChange},
		"Another": {reason: "another value is its author's", change: []mod{set("disable", "spec", "approvePlan")}, opts: enforced(),
			want: ReasonNoParent},
		"Both": {reason: "with something else", change: []mod{auto, set("./b", "spec", "path")}, opts: enforced(),
			fields: map[string]any{"/spec/approvePlan": ""}, want: ReasonNoParent},
		"Log": {reason: "log mode masks nothing", change: []mod{auto}, opts: Options{}, want: ReasonNoChange},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{}.world(), tc.opts, by(request(Update, stored, tc.change...), alice, ""))
			if !d.Allowed || d.Reason != tc.want {
				t.Errorf("%s: %+v", tc.reason, d)
			}
			if diff := cmp.Diff(tc.fields, d.Fields); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if moved := d.Trace != nil; moved != (tc.want != ReasonNoChange) {
				t.Errorf("%s: trace %v", tc.reason, d.Trace)
			}
		})
	}
}
