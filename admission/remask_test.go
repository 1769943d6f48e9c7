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
		"Again":   {"the author's value", []mod{auto}, enforced(), map[string]any{"/spec/approvePlan": ""}, ReasonNoChange},
		"Same":    {"what is stored", []mod{set("", "spec", "approvePlan")}, enforced(), nil, ReasonNoChange},
		"Another": {"another value is its author's", []mod{set("disable", "spec", "approvePlan")}, enforced(), nil, ReasonNoParent},
		"Both":    {"with something else", []mod{auto, set("./b", "spec", "path")}, enforced(), map[string]any{"/spec/approvePlan": ""}, ReasonNoParent},
		"Log":     {"log mode masks nothing", []mod{auto}, Options{}, nil, ReasonNoChange},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{}.world(), tc.opts, request(Update, stored, tc.change...).by(alice, ""))
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
