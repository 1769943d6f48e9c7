package authorship

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestEdits covers KR-07-14: a change reverts what other users set, by the owners of its paths, and the trace has the user.
func TestEdits(t *testing.T) {
	const composed = "apiextensions.crossplane.io/composed/1"
	fields := func(names ...string) map[string]any {
		spec := map[string]any{}
		for _, n := range names {
			spec["f:"+n] = map[string]any{}
		}
		return map[string]any{"f:spec": map[string]any{"f:forProvider": spec}}
	}
	entry := func(manager, operation, subresource, at string, owned map[string]any) any {
		return map[string]any{"manager": manager, "operation": operation, "subresource": subresource, "time": at, "fieldsV1": owned}
	}
	crossplane := entry(composed, "Apply", "", "2026-01-02T10:00:00Z", fields("tier", "zone"))
	edited := entry("kubectl-edit", "Update", "", "2026-01-02T11:00:00Z", fields("size"))
	provider := []any{entry("provider", "Update", "", "2026-01-02T12:00:00Z", fields("late")), entry("provider", "Update", "status", "2026-01-02T12:00:00Z", nil)}
	hans := v1alpha1.Hop{Kind: "Database", User: "hans", Generation: 2, Timestamp: metav1.NewTime(time.Date(2026, 1, 2, 11, 0, 0, 0, time.UTC))}
	later, slow, slower, passed := hans, hans, hans, hans
	slower.Timestamp = metav1.NewTime(hans.Timestamp.Add(2 * time.Second))
	slow.Timestamp = metav1.NewTime(hans.Timestamp.Add(time.Second))
	later.Timestamp = metav1.NewTime(time.Date(2026, 1, 2, 13, 0, 0, 0, time.UTC))
	passed.Unrequested, passed.Passed = true, v1alpha1.PassedLog
	byHans := []v1alpha1.HopCause{{Kind: v1alpha1.CauseEdit, Name: "hans"}}
	unknown := []v1alpha1.HopCause{{Kind: v1alpha1.CauseEdit, Name: v1alpha1.CauseUnknownEditor, Manager: "kubectl-edit (Update)"}}
	const size, tier = "spec.forProvider.size", "spec.forProvider.tier"
	for name, tc := range map[string]struct {
		reason     string
		managed    []any
		trace      trace.Trace
		paths      []string
		controller string
		want       []v1alpha1.HopCause
		all        bool
	}{
		"Edited":    {reason: "hans set the one field", managed: []any{crossplane, edited}, trace: trace.Trace{hans}, paths: []string{size}, want: byHans, all: true},
		"Mixed":     {reason: "and not the other", managed: []any{crossplane, edited}, trace: trace.Trace{hans}, paths: []string{size, tier}, want: byHans},
		"Untouched": {reason: "nor this", managed: []any{crossplane, edited}, trace: trace.Trace{hans}, paths: []string{tier}},
		"Absent":    {reason: "no user set what is new", managed: []any{crossplane, edited}, trace: trace.Trace{hans}, paths: []string{"spec.forProvider.new"}},
		"Item": {reason: "an item is somewhere in a list that hans edited", managed: []any{edited}, trace: trace.Trace{hans},
			paths: []string{"spec.forProvider.size[0].x"}, want: byHans, all: true},
		"Provider": {reason: "late initialization is no edit", managed: append([]any{crossplane}, provider...), trace: trace.Trace{hans},
			paths: []string{"spec.forProvider.late"}},
		"BeforeApply": {reason: "nothing is known of writes before managedFields", managed: []any{
			entry("before-first-apply", "Update", "", "2026-01-02T11:00:00Z", fields("size"))}, trace: trace.Trace{hans}, paths: []string{size}},
		"Ours": {reason: "a mask is no edit", managed: []any{entry("kausality-gate", "Update", "", "2026-01-02T11:00:00Z", fields("size"))},
			paths: []string{size}},
		"Controller": {reason: "a controller changes what it wrote", managed: []any{edited}, trace: trace.Trace{hans}, paths: []string{size},
			controller: "kubectl-edit"},
		"Shared": {reason: "both applied the value", managed: []any{entry(composed, "Apply", "", "2026-01-02T10:00:00Z", fields("size")),
			entry("argocd", "Apply", "", "2026-01-02T11:00:00Z", fields("size"))}, trace: trace.Trace{hans}, paths: []string{size}},
		"Kept": {reason: "the function keeps the edited value, which Crossplane applies", managed: []any{
			entry(composed, "Apply", "", "2026-01-02T12:00:00Z", fields("size")), edited}, trace: trace.Trace{hans}, paths: []string{size}, want: byHans, all: true},
		"Later": {reason: "another user changed the object since", managed: []any{edited}, trace: trace.Trace{later}, paths: []string{size},
			want: unknown, all: true},
		"Slow": {reason: "it was decided about in the next second", managed: []any{crossplane, edited}, trace: trace.Trace{slow}, paths: []string{size},
			want: byHans, all: true},
		"Slower": {reason: "a write that leaves no entry, as the removal of another manager's field, may have come between", managed: []any{crossplane, edited},
			trace: trace.Trace{slower}, paths: []string{size}, want: unknown, all: true},
		"Soon": {reason: "another user changed the object in the next second", managed: []any{edited,
			entry("kubectl-patch", "Update", "", "2026-01-02T11:00:01Z", fields("tier"))}, trace: trace.Trace{slow}, paths: []string{size},
			want: unknown, all: true},
		"Passed": {reason: "the last change was no user's own", managed: []any{edited}, trace: trace.Trace{passed}, paths: []string{size}, want: unknown, all: true},
		"Intent": {reason: "Crossplane changed the object since", managed: []any{edited}, trace: trace.Trace{{Kind: "XDatabase"}, hans}, paths: []string{size},
			want: unknown, all: true},
		"Untraced": {reason: "no trace", managed: []any{edited}, paths: []string{size}, want: unknown, all: true},
		"Garbage":  {reason: "what is no entry owns nothing", managed: []any{"x", map[string]any{"fieldsV1": "y"}}, paths: []string{size, ""}},
		"None":     {reason: "no paths"},
	} {
		t.Run(name, func(t *testing.T) {
			changes := make([]change.Change, 0, len(tc.paths))
			for _, p := range tc.paths {
				changes = append(changes, change.Change{Path: p})
			}
			got, all := Edits(tc.managed, tc.trace.String(), changes, tc.controller)
			if diff := cmp.Diff(tc.want, got); diff != "" || all != tc.all {
				t.Errorf("%s: all %v, -want +got:\n%s", tc.reason, all, diff)
			}
		})
	}
}
