package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/race"
)

// large is an MR of about 3.5 KB of JSON, managedFields included, as a composed
// resource in steady state is.
func large(tb testing.TB) *unstructured.Unstructured {
	o := fx.Instance()
	tags := map[string]any{}
	fields := map[string]any{}
	for i := range 30 {
		k := fmt.Sprintf("tag-%02d.example.org/name", i)
		tags[k] = fmt.Sprintf("value-%02d", i)
		fields["f:"+k] = map[string]any{}
	}
	fx.Set(tags, "spec", "forProvider", "tags")(o)
	_ = unstructured.SetNestedSlice(o.Object, []any{
		map[string]any{"manager": fx.ComposedManager, "operation": "Apply", "apiVersion": "aws.example.org/v1",
			"time": "2026-01-02T11:00:00Z", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:forProvider": map[string]any{"f:tags": fields, "f:size": map[string]any{}}}}},
		map[string]any{"manager": "provider", "operation": "Update", "subresource": "status", "apiVersion": "aws.example.org/v1",
			"time": "2026-01-02T11:00:00Z", "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:status": map[string]any{"f:atProvider": map[string]any{"f:size": map[string]any{}}}}},
	}, "metadata", "managedFields")
	raw, err := json.Marshal(o.Object)
	if err != nil {
		tb.Fatal(err)
	}
	if missing := 3500 - len(raw); missing > 0 {
		fx.Set(strings.Repeat("x", missing), "spec", "forProvider", "note")(o)
	}
	return o
}

// benchCase of one evaluation in a warm world; allocs is how many it may make.
type benchCase struct {
	setting setting
	req     *Request
	want    outcome.Reason
	allocs  float64
}

func benchCases(tb testing.TB) map[string]benchCase {
	tb.Helper()
	xr := []fx.Mod{fx.Unsettled}
	created := fx.With(fx.Unmasked(), func(o *unstructured.Unstructured) { o.Object["spec"] = large(tb).Object["spec"]; fx.Policies("*")(o) })
	return map[string]benchCase{
		"NoChange": {setting: setting{xr: xr}, req: byCrossplane(Update, large(tb)), want: outcome.ReasonNoChange, allocs: 10},
		"NoChangeAuthor": {setting: setting{xr: xr}, req: byCrossplane(Update, large(tb), fx.Policies("*")), want: outcome.ReasonNoChange,
			allocs: 30},
		"NoChangeByPerson": {setting: setting{xr: xr}, req: by(byCrossplane(Update, large(tb)), fx.Alice, "kubectl"), want: outcome.ReasonNoChange,
			allocs: 10},
		"NoChangeByMachine": {setting: setting{xr: xr}, req: by(byCrossplane(Update, large(tb)), fx.ArgoCD, "argocd"), want: outcome.ReasonNoChange,
			allocs: 10},
		"Self": {setting: setting{xr: xr}, req: by(byCrossplane(Update, large(tb), fx.Resize("l")), fx.Provider, "provider"),
			want: outcome.ReasonSelf, allocs: 36},
		"Expected": {setting: setting{xr: xr}, req: byCrossplane(Update, large(tb), fx.Resize("l")), want: outcome.ReasonExpected,
			allocs: 60},
		"NewOrigin": {setting: setting{xr: xr}, req: by(byCrossplane(Update, large(tb), fx.Resize("l")), fx.Alice, "kubectl"),
			want: outcome.ReasonNewOrigin, allocs: 60},
		"Create": {setting: setting{xr: xr}, req: byCrossplane(Create, created), want: outcome.ReasonExpected, allocs: 53},
		"Drift":  {setting: setting{}, req: byCrossplane(Update, large(tb), fx.Resize("l")), want: outcome.ReasonDrift, allocs: 89},
		"Approved": {setting: setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovals, approveAll)}},
			req: byCrossplane(Update, large(tb), fx.Resize("l")), want: outcome.ReasonApproved, allocs: 120},
	}
}

// BenchmarkEvaluate on a 3.5 KB object in a warm world. Targets: without a
// change 20 µs and 30 allocations, with one 120 µs and 300.
func BenchmarkEvaluate(b *testing.B) {
	for name, bc := range benchCases(b) {
		b.Run(name, func(b *testing.B) {
			e := &Evaluator{World: bc.setting.world(), Options: enforced()}
			b.ReportAllocs()
			for b.Loop() {
				d, err := e.Evaluate(context.Background(), bc.req)
				if err != nil || d.Reason != bc.want {
					b.Fatalf("got %v, %s: %s", err, d.Reason, d.Message)
				}
			}
		})
	}
}

// An evaluation makes no more allocations than it needs: they creep up one by
// one, and a webhook pays for them on every write.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates, too")
	}
	for name, bc := range benchCases(t) {
		t.Run(name, func(t *testing.T) {
			e := &Evaluator{World: bc.setting.world(), Options: enforced()}
			var d Decision
			got := testing.AllocsPerRun(100, func() { d, _ = e.Evaluate(t.Context(), bc.req) })
			if d.Reason != bc.want {
				t.Fatalf("got %s: %s", d.Reason, d.Message)
			}
			if got > bc.allocs {
				t.Errorf("%.0f allocations, more than %.0f", got, bc.allocs)
			}
		})
	}
}

// A parent that was read for many requests makes no other decisions, and one that
// has changed since is read again.
func TestParentReadOnce(t *testing.T) {
	for name, bc := range benchCases(t) {
		t.Run(name, func(t *testing.T) {
			w := bc.setting.world()
			want, err := (&Evaluator{World: w, Options: enforced()}).Live(t.Context(), bc.req)
			if err != nil {
				t.Fatal(err)
			}
			p, err := w.Parent(t.Context(), parent.Ref{GroupVersionKind: fx.Composite().GroupVersionKind(), Name: fx.Composite().GetName()}, true)
			if err != nil {
				t.Fatal(err)
			}
			frozen := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true"), fx.Annotate(v1alpha1.AnnotationKeyTrace, "[]")}}
			other, err := frozen.world().Parent(t.Context(), p.Ref, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, read := range []*parent.State{p, other} {
				got, err := (&Evaluator{World: w, Options: enforced(), Parent: Read(read)}).Live(t.Context(), bc.req)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%v, -want, +got:\n%s", err, diff)
				}
			}
		})
	}
}
