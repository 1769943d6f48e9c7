package preview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const head = "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {name: c}\n" +
	"spec:\n  compositeTypeRef: {apiVersion: example.org/v1, kind: X}\n"

func TestParse(t *testing.T) {
	step := func(name, function, input string) string {
		return "  - {step: " + name + ", functionRef: {name: " + function + "}, input: {apiVersion: " + input + ", kind: I}}\n"
	}
	pipeline := head + "  pipeline:\n"
	ours := step("k", "function-kausality", "kausality.fn.crossplane.io/v1alpha1")
	cases := map[string]struct {
		reason, in string
		steps      []string
		functions  []string
		err        string
	}{
		"WithoutOurs": {
			reason:    "our step holds back what is to be shown, whatever it is called",
			in:        pipeline + step("a", "pt", "pt/v1") + ours + step("b", "ready", "r/v1"),
			steps:     []string{"a", "b"},
			functions: []string{"pt", "ready"},
		},
		"FunctionTwice": {
			reason:    "each function once",
			in:        pipeline + step("a", "pt", "pt/v1") + step("b", "pt", "pt/v1"),
			steps:     []string{"a", "b"},
			functions: []string{"pt"},
		},
		"NoInput": {
			reason:    "a step may have none",
			in:        pipeline + "  - {step: a, functionRef: {name: ready}}\n",
			steps:     []string{"a"},
			functions: []string{"ready"},
		},
		"OnlyOurs":   {reason: "nothing is composed", in: pipeline + ours, err: "no step that composes"},
		"NoPipeline": {reason: "the old mode", in: head + "  resources: []\n", err: "only Compositions in mode Pipeline"},
		"OtherKind": {
			reason: "a slip of the file",
			in:     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
			err:    "it is no Composition",
		},
		"OtherGroup": {
			reason: "another Composition",
			in:     strings.Replace(pipeline, "apiextensions.crossplane.io", "music.org", 1),
			err:    "it is no Composition",
		},
		"Graph": {
			reason: "kro has no program that renders one",
			in:     "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: shop}\n",
			err:    "it is a graph of kro, and preview renders Compositions alone. To see what an edit of a graph changes, apply it",
		},
		"GraphPending": {
			reason: "the command that lists it",
			in:     "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: shop}\n",
			err:    "kubectl kausality pending resourcegraphdefinition/shop",
		},
		"GraphName": {
			reason: "no name that a shell interprets is in a command",
			in:     "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: \"a;b\"}\n",
			err:    "kubectl kausality pending resourcegraphdefinition/NAME",
		},
		"NoComposite": {
			reason: "of what?",
			in:     "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {name: c}\nspec: {}\n",
			err:    "compositeTypeRef must name",
		},
		"NoYAML": {reason: "anything", in: "{", err: "it is no YAML"},
		"Empty":  {reason: "nothing", err: "it is no Composition"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := Parse([]byte(tc.in))
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("%s: want error %q, got %v", tc.reason, tc.err, err)
			}
			if err != nil {
				return
			}
			list, _, err := unstructured.NestedSlice(c.Object, "spec", "pipeline")
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			for _, s := range list {
				steps = append(steps, s.(map[string]any)["step"].(string))
			}
			if diff := cmp.Diff(tc.steps, steps); diff != "" {
				t.Errorf("%s: steps -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.functions, c.Functions); diff != "" {
				t.Errorf("%s: functions -want, +got:\n%s", tc.reason, diff)
			}
			if c.Composite.Kind != "X" || c.Composite.Group != "example.org" {
				t.Errorf("%s: composite is %s", tc.reason, c.Composite)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "  pipeline: [{step: a, functionRef: {name: pt}}]"))
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := Parse(raw); err == nil && (c.GetName() == "" || c.Composite.Kind == "") {
			t.Errorf("%q parses without a name or kind", raw)
		}
	})
}
