package external

import (
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A status of any shape and size shows something or nothing, and is bounded in the gate's
// record (KR-08-47, KR-08-48).
func TestShownShapes(t *testing.T) {
	many := map[string]any{}
	for i := range maxOutputs + 1 {
		many[strings.Repeat("o", i+1)] = int64(i)
	}
	reported := func(observation any) any { return map[string]any{"atProvider": observation} }
	withOutputs := func(v any) any { return reported(map[string]any{"outputs": v}) }
	cases := map[string]struct {
		reason string
		status any
		want   int
	}{
		"NoStatus":     {reason: "a kind without a status"},
		"Text":         {reason: "a status that is no map", status: "fine"},
		"List":         {reason: "an atProvider that is no map", status: reported([]any{"x"})},
		"TextOutputs":  {reason: "outputs that are no map are one value", status: withOutputs("a=1"), want: 1},
		"NoOutputs":    {reason: "none", status: withOutputs(map[string]any{})},
		"ManyOutputs":  {reason: "more than can be recorded are one value", status: withOutputs(many), want: 1},
		"LargeOutput":  {reason: "1 MiB", status: withOutputs(map[string]any{"x": strings.Repeat("x", 1<<20)}), want: 1},
		"NullOutput":   {reason: "null is a value", status: withOutputs(map[string]any{"x": nil}), want: 1},
		"NotAnOutput":  {reason: "neither", status: reported(map[string]any{"phase": "Running", "time": "12:00"})},
		"NestedSerial": {reason: "one level down", status: reported(map[string]any{"state": map[string]any{"serial": int64(1)}}), want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := map[string]any{"spec": map[string]any{"forProvider": map[string]any{"module": "m"}}}
			if tc.status != nil {
				o["status"] = tc.status
			}
			got := Digests(o)
			if len(got) != tc.want {
				t.Errorf("%s: shows %v", tc.reason, got)
			}
			for p, d := range got {
				if len(d) != 16 || len(p) > 100 {
					t.Errorf("%s: %s is recorded as %s", tc.reason, p, d)
				}
			}
			gates := []string{`{"state":"closed","observed":{"digests":{"status.atProvider.outputs.x":"00"}}}`, `"observed"`, `{"observed":[`}
			for _, gate := range gates {
				o["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyGate: gate}}
				if tc.want == 0 && len(Difference(o)) > 0 {
					t.Errorf("%s: nothing is shown, and differs", tc.reason)
				}
			}
		})
	}
}
