package admission

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/change"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// manyPolicies over as many kinds; the last is about XDatabases of the tests.
func manyPolicies(tb testing.TB, policies, kinds int) *allowance.Set {
	tb.Helper()
	compiled := make([]*allowance.Compiled, 0, policies+1)
	for i := range policies {
		p := &v1alpha1.AllowancePolicy{}
		p.Name = fmt.Sprintf("p-%05d", i)
		p.Spec.Target = &v1alpha1.PolicyTarget{APIGroup: fmt.Sprintf("g%d.example.org", i%kinds), Kind: "XDatabase"}
		p.Spec.Subjects = []v1alpha1.PolicySubject{{Subject: v1alpha1.Subject{Kind: "User", Name: "hans"}, MayInitiate: true}}
		p.Spec.Rules = []v1alpha1.AllowanceRule{{Trigger: "spec.size", Conditions: []string{"has(object.metadata.annotations['jira'])"},
			Allow: []v1alpha1.AllowedChange{{Relation: v1alpha1.RelationControllerChild, Verbs: []string{"Update"},
				Mutations: []v1alpha1.AllowedMutation{{JSONPath: "spec.forProvider.size"}}}}}}
		c, errs := allowance.Compile(p)
		if len(errs) > 0 {
			tb.Fatal(errs)
		}
		compiled = append(compiled, c)
	}
	p := &v1alpha1.AllowancePolicy{}
	p.Name, p.Spec.Target = "the", &v1alpha1.PolicyTarget{APIGroup: "example.org", Kind: "XDatabase"}
	c, _ := allowance.Compile(p)
	return allowance.NewSet(append(compiled, c), nil, nil)
}

const benchEntries = `[{"apiVersion":"aws.example.org/v1","kind":"Instance","relation":"ControllerChild","verbs":["Update"],` +
	`"mutations":[{"jsonPath":"spec.forProvider.size"}],"generation":8,"initiator":"hans","trace":[{"kind":"XDatabase","name":"db",` +
	`"generation":8,"field":"spec.size"}]},{"relation":"External","verbs":["Update"],"generation":8,"initiator":"hans",` +
	`"trace":[{"kind":"XDatabase","name":"db","generation":8,"field":"spec.size"}]}]`

// BenchmarkPolicies decides a change that an allowance covers. Target: 10,000
// policies over 500 kinds cost at most 1.1 times what 10 cost.
func BenchmarkPolicies(b *testing.B) {
	for _, n := range []struct{ policies, kinds int }{{policies: 10, kinds: 10}, {policies: 10000, kinds: 500}} {
		b.Run(fmt.Sprintf("%d", n.policies), func(b *testing.B) {
			set := manyPolicies(b, n.policies, n.kinds)
			xr := []fx.Mod{fx.Unsettled, fx.Annotate(v1alpha1.AnnotationKeyAllowances, benchEntries)}
			e := &Evaluator{World: setting{xr: xr}.world(), Options: enforced(), Policies: set}
			req := byCrossplane(Update, large(b), fx.Resize("l"))
			b.ReportAllocs()
			for b.Loop() {
				d, err := e.Evaluate(b.Context(), req)
				if err != nil || d.Reason != outcome.ReasonExpected || d.Gate == nil {
					b.Fatalf("got %v, %s: %s", err, d.Reason, d.Message)
				}
			}
		})
	}
}

// BenchmarkCover matches a change of 200 paths against 50 rules. Target: 300 µs.
func BenchmarkCover(b *testing.B) {
	old, new := map[string]any{}, map[string]any{}
	for i := range 200 {
		old[fmt.Sprintf("field%03d", i)], new[fmt.Sprintf("field%03d", i)] = "a", "b"
	}
	details := change.Details(map[string]any{"spec": map[string]any{"forProvider": old}}, map[string]any{"spec": map[string]any{"forProvider": new}}, nil, false)
	text := ""
	for i := range 50 {
		text += fmt.Sprintf(`,{"kind":"Instance","verbs":["Update"],"mutations":[{"jsonPath":"spec.forProvider.other%02d"},`+
			`{"jsonPath":"spec.forProvider.field%03d"}],"generation":8}`, i, i*4)
	}
	entries, err := allowance.Parse("[" + text[1:] + "]")
	if err != nil {
		b.Fatal(err)
	}
	kind := schema.GroupKind{Group: "aws.example.org", Kind: "Instance"}
	b.ReportAllocs()
	for b.Loop() {
		if missing := entries.Missing(kind, allowance.VerbUpdate, details); len(missing) != 150 {
			b.Fatalf("%d missing", len(missing))
		}
	}
}

// TestExpressionMemory prints what 10,000 distinct expressions take.
func TestExpressionMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const n = 10000
	var before, after runtime.MemStats
	cache := expression.NewCache()
	programs := make([]*expression.Program, 0, n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	started := time.Now()
	for i := range n {
		p, err := cache.Compile(fmt.Sprintf("object.spec.size == %d && has(object.metadata.annotations['jira'])", i))
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	took := time.Since(started)
	runtime.GC()
	runtime.ReadMemStats(&after)
	bytes := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d distinct expressions: %.1f MiB, %d bytes each, compiled in %s", len(programs), float64(bytes)/(1<<20),
		bytes/n, took.Round(time.Millisecond))
	if bytes > 256<<20 {
		t.Errorf("%d bytes", bytes)
	}
	runtime.KeepAlive(programs)
}
