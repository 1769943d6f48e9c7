package webhook

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/webhook/review"
)

// TestKept covers KR-05-62: the patches make of the object that arrives what passes, with its edits, whatever is put back.
func TestKept(t *testing.T) {
	name := v1alpha1.AnnotationKeyExternalName
	cases := map[string]struct{ object, rest, want string }{
		"Field":     {object: `spec: {a: 2, b: 2}`, rest: `spec: {a: 1, b: 2}`, want: `spec: {a: 1, b: 2}`},
		"Added":     {object: `spec: {a: 2}`, rest: `spec: {}`, want: `spec: {}`},
		"Removed":   {object: `spec: {}`, rest: `spec: {a: 1}`, want: `spec: {a: 1}`},
		"TopLevel":  {object: `{data: {a: x}}`, rest: `{binaryData: {b: eA==}}`, want: `{binaryData: {b: eA==}}`},
		"NameKept":  {object: `{spec: {}}`, rest: `{spec: {}, metadata: {annotations: {` + name + `: one}}}`},
		"NameMoved": {object: `{metadata: {annotations: {` + name + `: two, x: y}}}`, rest: `{metadata: {annotations: {` + name + `: one, x: y}}}`},
		"NameGone":  {object: `{metadata: {annotations: {` + name + `: two, x: y}}}`, rest: `{metadata: {annotations: {x: y}}}`},
		"Status":    {object: `{spec: {a: 2}, status: {x: 1}}`, rest: `{spec: {a: 1}}`, want: `{spec: {a: 1}, status: {x: 1}}`},
	}
	read := func(text string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if o.Object["metadata"] == nil {
			o.Object["metadata"] = map[string]any{"name": "x"}
		}
		return o
	}
	for test, tc := range cases {
		t.Run(test, func(t *testing.T) {
			object, mode := read(tc.object), "m"
			req := &admission.Request{Operation: admission.Update, Object: object}
			d := admission.Decision{Answer: admission.Answer{Allowed: true}, Rest: read(tc.rest), Annotations: map[string]*string{"kausality.io/trace": &mode}}
			ops, err := json.Marshal(review.Patches(req, d))
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := json.Marshal(object.Object)
			p, err := jsonpatch.DecodePatch(ops)
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Apply(raw)
			if err != nil {
				t.Fatalf("%s: %v", ops, err)
			}
			got := read(string(out))
			if got.GetAnnotations()["kausality.io/trace"] != "m" {
				t.Errorf("the edits are lost: %s", out)
			}
			if got.GetAnnotations()[name] != d.Rest.GetAnnotations()[name] || got.GetAnnotations()["x"] != object.GetAnnotations()["x"] {
				t.Errorf("annotations: %s", out)
			}
			delete(got.Object, "metadata")
			if want := read(tc.want); len(object.GetAnnotations()) == 0 && d.Rest.GetAnnotations() == nil {
				if delete(want.Object, "metadata"); !cmp.Equal(got.Object, want.Object) {
					t.Errorf("%s: got %s", ops, out)
				}
			}
		})
	}
}
