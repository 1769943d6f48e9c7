package external

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/admission/change"
)

// What a provider reports of a plan is the difference, whatever else it shows (KR-08-66).
func TestPlan(t *testing.T) {
	update := change.Change{Path: "plan[aws_instance.web]", Verb: change.Mutate, Old: "unchanged", New: "update"}
	for name, tc := range map[string]struct {
		reason   string
		report   any
		unknown  bool
		want     []change.Change
		destroys bool
	}{
		"Clean": {reason: "the plan has no changes", report: map[string]any{"differs": false}},
		"Update": {reason: "a resource would be updated", want: []change.Change{update},
			report: map[string]any{"differs": true, "changes": map[string]any{"aws_instance.web": "update"}}},
		"Several": {reason: "changes are sorted, and a replacement destroys", destroys: true,
			report: map[string]any{"differs": true, "changes": map[string]any{"b": "replace", "a": "create"}},
			want: []change.Change{{Path: "plan.a", Verb: change.Mutate, Old: "unchanged", New: "create"},
				{Path: "plan.b", Verb: change.Mutate, Old: "unchanged", New: "replace"}}},
		"More": {reason: "who approves it has not seen all of it",
			report: map[string]any{"differs": true, "changes": map[string]any{"aws_instance.web": "update"}, "more": int64(3)},
			want:   []change.Change{update, {Path: "plan.more", Verb: change.Mutate, Old: "unchanged", New: int64(3)}}},
		"MoreDestroyed": {reason: "nor of what is destroyed",
			report: map[string]any{"differs": true, "changes": map[string]any{"aws_instance.web": "delete"}, "more": int64(3)},
			want: []change.Change{{Path: "plan[aws_instance.web]", Verb: change.Mutate, Old: "unchanged", New: "delete"},
				{Path: "plan.more", Verb: change.Mutate, Old: "unchanged", New: int64(3)}}},
		"Unlisted": {reason: "nothing is listed", report: map[string]any{"differs": true},
			want: []change.Change{{Path: "plan.more", Verb: change.Mutate, Old: "unchanged"}}},
		"New": {reason: "an operation that is not known permits nothing", report: map[string]any{"differs": true, "changes": map[string]any{"a": "melt"}},
			want: []change.Change{{Path: "plan.a", Verb: change.Mutate, Old: "unchanged", New: "melt"}}},
		"Text":      {reason: "a report of another form is none", report: "clean", unknown: true},
		"NoDiffers": {reason: "nor is one without a result", report: map[string]any{"changes": map[string]any{}}, unknown: true},
		"None":      {reason: "nor is no report", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			out := map[string]any{"size": "20"}
			if tc.report != nil {
				out[PlanOutput] = tc.report
			}
			content := map[string]any{"spec": map[string]any{"forProvider": map[string]any{"module": "…"}},
				"status": map[string]any{"atProvider": map[string]any{"outputs": out}}}
			got, ok := Plan(content)
			require.Equal(t, !tc.unknown, ok, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, tc.destroys, PlanDestroys(got), tc.reason)
			require.Equal(t, ok, Comparable(content), "%s: it can be compared", tc.reason)
			require.Equal(t, got, Difference(content), "%s: it is the difference", tc.reason)
			require.Equal(t, ok, Shown(content) == nil, "%s: outputs count only without it", tc.reason)
		})
	}
	require.False(t, PlanDestroys([]change.Change{{Path: "spec.forProvider.size", New: "delete"}}))
}
