package pt

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane/function-sdk-go/resource/composed"

	"github.com/kausality-io/function-kausality/test/templating/input"
)

func TestConvert(t *testing.T) {
	cases := map[string]struct {
		to   input.ValueType
		in   any
		want any
		err  string
	}{
		"StringToInt":    {to: input.ValueInt, in: "7", want: int64(7)},
		"StringToFloat":  {to: input.ValueFloat64, in: "1.5", want: 1.5},
		"StringToBool":   {to: input.ValueBool, in: "true", want: true},
		"StringToString": {to: input.ValueString, in: "a", want: "a"},
		"IntToString":    {to: input.ValueString, in: int64(7), want: "7"},
		"IntToFloat":     {to: input.ValueFloat64, in: int64(7), want: 7.0},
		"IntToBool":      {to: input.ValueBool, in: int64(1), want: true},
		"IntToInt":       {to: input.ValueInt64, in: int64(7), want: int64(7)},
		"FloatToString":  {to: input.ValueString, in: 1.5, want: "1.5"},
		"FloatToInt":     {to: input.ValueInt64, in: 1.5, want: int64(1)},
		"FloatToBool":    {to: input.ValueBool, in: 1.5, want: false},
		"BoolToString":   {to: input.ValueString, in: true, want: "true"},
		"BoolToInt":      {to: input.ValueInt64, in: true, want: int64(1)},
		"BoolToFloat":    {to: input.ValueFloat64, in: false, want: 0.0},
		"NoNumber":       {to: input.ValueFloat64, in: "x", err: `cannot convert to float64: strconv.ParseFloat: parsing "x": invalid syntax`},
		"NoScalar":       {to: input.ValueString, in: []any{}, err: "cannot convert a []interface {}"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := convert(tc.to, tc.in)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("want error %q, got %v", tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func TestTransformRefuses(t *testing.T) {
	two := int64(2)
	cases := map[string]struct {
		t    input.Transform
		in   any
		want string
	}{
		"MapKey":   {t: input.Transform{Type: input.TransformMap, Map: map[string]any{"a": 1}}, in: "b", want: `cannot look up "b": not in the map`},
		"MapType":  {t: input.Transform{Type: input.TransformMap, Map: map[string]any{"a": 1}}, in: int64(1), want: "cannot look up a int64: the key must be a string"},
		"MathType": {t: input.Transform{Type: input.TransformMath, Math: &input.Math{Type: input.MathMultiply, Multiply: &two}}, in: "1", want: "cannot multiply a string"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := transform(tc.t, tc.in); err == nil || err.Error() != tc.want {
				t.Errorf("want error %q, got %v", tc.want, err)
			}
		})
	}
}

func TestIsReady(t *testing.T) {
	o := composed.New()
	o.Object = map[string]any{"status": map[string]any{
		"text": "a", "n": int64(3), "yes": true, "no": false,
		"conditions": []any{map[string]any{"type": "Healthy", "status": "True"}},
	}}
	ptr := func(s string) *string { return &s }
	three := int64(3)
	cases := map[string]struct {
		checks []input.ReadinessCheck
		want   bool
		err    bool
	}{
		"DefaultWithoutReady": {want: false},
		"None":                {checks: []input.ReadinessCheck{{Type: input.CheckNone}}, want: true},
		"Condition":           {checks: []input.ReadinessCheck{{Type: input.CheckMatchCondition, MatchCondition: &input.MatchCondition{Type: "Healthy", Status: "True"}}}, want: true},
		"ConditionDiffers":    {checks: []input.ReadinessCheck{{Type: input.CheckMatchCondition, MatchCondition: &input.MatchCondition{Type: "Healthy", Status: "False"}}}, want: false},
		"ConditionAbsent":     {checks: []input.ReadinessCheck{{Type: input.CheckMatchCondition, MatchCondition: &input.MatchCondition{Type: "Other", Status: "True"}}}, want: false},
		"NonEmpty":            {checks: []input.ReadinessCheck{{Type: input.CheckNonEmpty, FieldPath: ptr("status.text")}}, want: true},
		"NonEmptyAbsent":      {checks: []input.ReadinessCheck{{Type: input.CheckNonEmpty, FieldPath: ptr("status.absent")}}, want: false},
		"String":              {checks: []input.ReadinessCheck{{Type: input.CheckMatchString, FieldPath: ptr("status.text"), MatchString: ptr("a")}}, want: true},
		"StringOfOtherType":   {checks: []input.ReadinessCheck{{Type: input.CheckMatchString, FieldPath: ptr("status.n"), MatchString: ptr("a")}}, err: true},
		"Integer":             {checks: []input.ReadinessCheck{{Type: input.CheckMatchInteger, FieldPath: ptr("status.n"), MatchInteger: &three}}, want: true},
		"True":                {checks: []input.ReadinessCheck{{Type: input.CheckMatchTrue, FieldPath: ptr("status.yes")}}, want: true},
		"TrueAbsent":          {checks: []input.ReadinessCheck{{Type: input.CheckMatchTrue, FieldPath: ptr("status.absent")}}, want: false},
		"False":               {checks: []input.ReadinessCheck{{Type: input.CheckMatchFalse, FieldPath: ptr("status.no")}}, want: true},
		"AllMustHold":         {checks: []input.ReadinessCheck{{Type: input.CheckNone}, {Type: input.CheckMatchTrue, FieldPath: ptr("status.no")}}, want: false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := isReady(o, tc.checks)
			if got != tc.want || (err != nil) != tc.err {
				t.Errorf("want %t (error %t), got %t, %v", tc.want, tc.err, got, err)
			}
		})
	}
}
