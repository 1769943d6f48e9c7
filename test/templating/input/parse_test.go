package input

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"
)

const header = `
apiVersion: pt.fn.crossplane.io/v1beta1
kind: Resources
`

func parse(t *testing.T, doc string) (*Resources, error) {
	t.Helper()
	m := map[string]any{}
	if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
		t.Fatalf("cannot parse the test's YAML: %v", err)
	}
	s, err := structpb.NewStruct(m)
	if err != nil {
		t.Fatalf("cannot build the test's struct: %v", err)
	}
	return Parse(s)
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]struct {
		reason string
		input  string
		want   string
	}{
		"UnknownTopLevelField": {
			reason: "a feature of the original that is left out must not be ignored",
			input:  header + "patchSets: []\nresources: [{name: a}]",
			want:   `cannot use input: unknown field "patchSets"`,
		},
		"UnknownNestedField": {
			reason: "the whole path is named",
			input:  header + "resources: [{name: a}, {name: b, patches: [{fromFieldPath: spec.x, bogus: 1}]}]",
			want:   `cannot use input: unknown field "resources[1].patches[0].bogus"`,
		},
		"WrongCase": {
			reason: "field names are case-sensitive",
			input:  header + "resources: [{Name: a}]",
			want:   `cannot use input: unknown field "resources[0].Name"`,
		},
		"UnsupportedToFieldPathPolicy": {
			reason: "the original has it, the stand-in does not",
			input:  header + "resources: [{name: a, patches: [{fromFieldPath: spec.x, policy: {toFieldPath: MergeObjects}}]}]",
			want:   `cannot use input: unknown field "resources[0].patches[0].policy.toFieldPath"`,
		},
		"WrongType": {
			reason: "the type error names the field",
			input:  header + "resources: [{name: 3}]",
			want:   `cannot decode input: json: cannot unmarshal number into Go struct field Template.resources.name of type string`,
		},
		"WrongKind": {
			reason: "another function's input",
			input:  "apiVersion: pt.fn.crossplane.io/v1beta1\nkind: Resource\nresources: [{name: a}]",
			want:   `invalid input: kind: Unsupported value: "Resource": supported values: "Resources"`,
		},
		"NoResources": {
			reason: "there is nothing to do",
			input:  header,
			want:   `invalid input: resources: Required value: at least one resource`,
		},
		"DuplicateName": {
			reason: "the second would replace the first",
			input:  header + "resources: [{name: a}, {name: a}]",
			want:   `invalid input: resources[1].name: Duplicate value: "a"`,
		},
		"BaseWithoutKind": {
			reason: "Crossplane would refuse it later, without saying where",
			input:  header + "resources: [{name: a, base: {apiVersion: v1}}]",
			want:   `invalid input: resources[0].base.kind: Required value: what to compose`,
		},
		"PatchWithoutSource": {
			reason: "fromFieldPath has no default",
			input:  header + "resources: [{name: a, patches: [{toFieldPath: spec.x}]}]",
			want:   `invalid input: resources[0].patches[0].fromFieldPath: Required value: the field to copy`,
		},
		"PatchType": {
			reason: "patch sets are left out",
			input:  header + "resources: [{name: a, patches: [{type: PatchSet}]}]",
			want:   `invalid input: resources[0].patches[0].type: Unsupported value: "PatchSet": supported values: "CombineFromComposite", "FromCompositeFieldPath", "ToCompositeFieldPath"`,
		},
		"BrokenPath": {
			reason: "paths are parsed before anything is rendered",
			input:  header + "resources: [{name: a, patches: [{fromFieldPath: 'spec.x[0'}]}]",
			want:   `invalid input: resources[0].patches[0].fromFieldPath: Invalid value: "spec.x[0": unterminated '[' at position 6`,
		},
		"CombineWithoutDestination": {
			reason: "a combination has no path of its own",
			input:  header + "resources: [{name: a, patches: [{type: CombineFromComposite}]}]",
			want:   `invalid input: resources[0].patches[0].toFieldPath: Required value: the field to write`,
		},
		"CombineStrategy": {
			reason: "string is the only strategy",
			input:  header + "resources: [{name: a, patches: [{type: CombineFromComposite, toFieldPath: spec.x, combine: {strategy: sum, variables: [{fromFieldPath: spec.a}]}}]}]",
			want:   `invalid input: resources[0].patches[0].combine.strategy: Unsupported value: "sum": supported values: "string"`,
		},
		"MathWithoutType": {
			reason: "the original requires the type as well",
			input:  header + "resources: [{name: a, patches: [{fromFieldPath: spec.x, transforms: [{type: math, math: {multiply: 2}}]}]}]",
			want:   `invalid input: resources[0].patches[0].transforms[0].math.type: Unsupported value: "": supported values: "Multiply"`,
		},
		"ConvertType": {
			reason: "object and array are left out",
			input:  header + "resources: [{name: a, patches: [{fromFieldPath: spec.x, transforms: [{type: convert, convert: {toType: object}}]}]}]",
			want:   `invalid input: resources[0].patches[0].transforms[0].convert.toType: Unsupported value: "object": supported values: "bool", "float64", "int", "int64", "string"`,
		},
		"Policy": {
			reason: "a typo would mean Optional",
			input:  header + "resources: [{name: a, patches: [{fromFieldPath: spec.x, policy: {fromFieldPath: required}}]}]",
			want:   `invalid input: resources[0].patches[0].policy.fromFieldPath: Unsupported value: "required": supported values: "Optional", "Required"`,
		},
		"ReadinessCheckType": {
			reason: "an unknown check can never hold",
			input:  header + "resources: [{name: a, readinessChecks: [{type: Magic}]}]",
			want:   `invalid input: resources[0].readinessChecks[0].type: Unsupported value: "Magic": supported values: "MatchCondition", "MatchFalse", "MatchInteger", "MatchString", "MatchTrue", "NonEmpty", "None"`,
		},
		"ReadinessCheckWithoutField": {
			reason: "there is nothing to look at",
			input:  header + "resources: [{name: a, readinessChecks: [{type: NonEmpty}]}]",
			want:   `invalid input: resources[0].readinessChecks[0].fieldPath: Required value: the field to look at`,
		},
		"MatchConditionWithoutStatus": {
			reason: "the status has no default",
			input:  header + "resources: [{name: a, readinessChecks: [{type: MatchCondition, matchCondition: {type: Ready}}]}]",
			want:   `invalid input: resources[0].readinessChecks[0].matchCondition.status: Required value: the status to match`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, tc.input)
			if err == nil {
				t.Fatalf("\n%s\nwant error %q, got none", tc.reason, tc.want)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("\n%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseNil(t *testing.T) {
	if _, err := Parse(nil); err == nil {
		t.Fatal("a pipeline step without input must be refused")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(header + "resources: [{name: a, base: {apiVersion: v1, kind: A}}]")
	f.Add(header + "resources: [{name: a, patches: [{fromFieldPath: 'spec[x].y[0]', transforms: [{type: map, map: {a: 1}}]}]}]")
	f.Fuzz(func(_ *testing.T, doc string) {
		m := map[string]any{}
		if yaml.Unmarshal([]byte(doc), &m) != nil {
			return
		}
		s, err := structpb.NewStruct(m)
		if err != nil {
			return
		}
		_, _ = Parse(s)
	})
}
