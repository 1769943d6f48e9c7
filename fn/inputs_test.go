package fn

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/results"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// legacyStage has an XR of a Claim as Crossplane v1.20 keeps it: cluster-scoped,
// machinery right below spec. The requests of its stage declare no
// capabilities.
func legacyStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, enforce)
	unstructured.RemoveNestedField(s.xr.Object, "metadata", "namespace")
	unstructured.RemoveNestedField(s.xr.Object, "metadata", "managedFields")
	spec := ssa.Child(s.xr.Object, "spec")
	spec["claimRef"] = map[string]any{"apiVersion": "example.org/v1", "kind": "Database", "namespace": "shop", "name": "db"}
	spec["resourceRefs"] = []any{}
	spec["compositionRef"] = map[string]any{"name": "dbs"}
	spec["compositionRevisionRef"] = map[string]any{"name": "dbs-1"}
	s.person("apiextensions.crossplane.io/claim", "f:spec", "f:size")
	return s
}

func inShop(o map[string]any) map[string]any {
	o["metadata"] = map[string]any{"namespace": "shop"}
	return o
}

// A Claim's change comes to its XR by Crossplane's claim controller, and is an
// intent; Crossplane's own writes to the spec are none.
func TestLegacyClaim(t *testing.T) {
	s := legacyStage(t)
	want := desire{"b": inShop(plain("x"))}
	s.reconcile(want)
	s.wantWrites("create b")
	if got := s.trace("b"); len(got) != 2 || !got[0].ClusterScoped || got[0].Generation != 1 {
		t.Errorf("trace: %s", got)
	}
	s.stable(want)
	s.settle(want)

	// A new Composition revision: Crossplane changes the generation, which is no intent.
	s.now = s.now.Add(time.Minute)
	ssa.Child(s.xr.Object, "spec")["compositionRevisionRef"] = map[string]any{"name": "dbs-2"}
	s.xr.SetGeneration(2)
	s.person("apiextensions.crossplane.io/composite", "f:spec", "f:compositionRevisionRef")
	want["b"] = inShop(plain("y"))
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld)
	s.stable(want)

	// The Claim's owner changes it: an intent, which causes another value than the held one.
	s.now = s.now.Add(time.Minute)
	_ = unstructured.SetNestedField(s.xr.Object, int64(2), "spec", "size")
	s.xr.SetGeneration(3)
	s.person("apiextensions.crossplane.io/claim", "f:spec", "f:size")
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonHeld) // it does not cause what was held before
	s.wantField("x", "b", "spec", "value")
	want["b"] = inShop(plain("z"))
	s.reconcile(want)
	s.wantWrites("update b")
	s.wantReason(v1alpha1.ConditionReasonAllowed)
	s.stable(want)
}

// A composite may have no annotations, managedFields or status, as in crossplane
// render.
func TestBareComposite(t *testing.T) {
	s := newStage(t, enforce)
	s.xr = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "XDatabase", "metadata": map[string]any{"name": "db"},
	}}
	rsp := s.run(s.request(desire{"a": database(1), "b": inShop(plain("x"))}))
	if len(rsp.GetDesired().GetResources()) != 2 || len(rsp.GetResults()) != 0 {
		t.Errorf("response: %v", rsp)
	}
}

// A resource without a kind cannot be applied and is emitted as it is; one of an
// unknown kind is decided like any other.
func TestUnknownKinds(t *testing.T) {
	s := newStage(t, enforce)
	odd := map[string]any{"spec": map[string]any{"x": "y"}}
	req := s.request(desire{"odd": odd, "list": {"apiVersion": "v9", "kind": "Never", "items": []any{"a", int64(1)}}})
	req.Desired.Resources["empty"] = &fnv1.Resource{}
	rsp := s.run(req)
	for _, name := range []string{"odd", "empty"} {
		if d := cmp.Diff(req.GetDesired().GetResources()[name], rsp.GetDesired().GetResources()[name], protocmp.Transform()); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
	list := ssa.Object(rsp.GetDesired().GetResources()["list"].GetResource())
	if d := cmp.Diff([]any{"a", int64(1)}, list["items"]); d != "" || ssa.Child(ssa.Child(list, "metadata"), "annotations")["kausality.io/trace"] == nil {
		t.Errorf("list: %v\n%s", list, d)
	}
}

// Five hundred resources are decided one by one, and reported within bounds.
func TestManyResources(t *testing.T) {
	const n = 500
	s := newStage(t, enforce)
	want := desire{}
	for i := range n {
		want[fmt.Sprintf("thing-%03d", i)] = plain("x")
	}
	s.reconcile(want)
	if len(s.writes) != n {
		t.Fatalf("created %d", len(s.writes))
	}
	s.ready()
	s.now = s.now.Add(time.Minute)
	s.reconcile(want)
	for i := range n {
		if i%2 == 0 {
			want[fmt.Sprintf("thing-%03d", i)] = plain("y")
		}
	}
	s.reconcile(want)
	if _, reason, message := s.condition(); reason != v1alpha1.ConditionReasonHeld || len(message) > results.MaxMessage || len(s.writes) != n/2 {
		t.Errorf("%s, %d writes, %d bytes: %s", reason, len(s.writes), len(message), message)
	}
}

// Ten times the resources take about ten times the memory, no more: in bytes,
// and in pieces.
func TestMemoryIsLinear(t *testing.T) {
	measure := func(n int) (size, pieces float64) {
		s := newStage(t, enforce)
		want := desire{}
		for i := range n {
			want[fmt.Sprintf("thing-%03d", i)] = plain("x")
		}
		s.reconcile(want)
		req := s.request(want)
		const runs = 5
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		pieces = testing.AllocsPerRun(runs-1, func() { // and once to warm up
			if _, err := s.fn.RunFunction(context.Background(), req); err != nil {
				t.Error(err)
			}
		})
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / runs, pieces
	}
	fewBytes, fewPieces := measure(50)
	manyBytes, manyPieces := measure(500)
	if fewBytes == 0 || manyBytes > 12*fewBytes || manyPieces > 12*fewPieces {
		t.Errorf("%.0f bytes in %.0f pieces for 50 resources, %.0f in %.0f for 500", fewBytes, fewPieces, manyBytes, manyPieces)
	}
}
