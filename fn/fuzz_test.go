package fn

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/policies"
)

// mutator damages requests, deterministically by its seed.
type mutator struct{ r *rand.Rand }

// odd values in the place of expected ones.
func (m mutator) odd() *structpb.Value {
	return []*structpb.Value{
		structpb.NewNullValue(), structpb.NewNumberValue(-1), structpb.NewNumberValue(1.5), structpb.NewNumberValue(math.NaN()),
		structpb.NewNumberValue(1e300), structpb.NewStringValue(""), structpb.NewStringValue("[]"), structpb.NewStringValue("{"),
		structpb.NewStringValue(`[{"kind":"XDatabase","name":"db","generation":-5}]`), structpb.NewStringValue("once"),
		structpb.NewBoolValue(true), structpb.NewStructValue(&structpb.Struct{}), structpb.NewListValue(&structpb.ListValue{}),
		structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{nil, structpb.NewStringValue("x")}}), {}, nil,
		structpb.NewStructValue(nil), structpb.NewListValue(nil),
	}[m.r.IntN(18)]
}

var oddKeys = []string{
	"", ".", "f:", "k:{", "metadata", "spec", "status", v1alpha1.AnnotationKeyTrace, v1alpha1.AnnotationKeyFreeze,
	v1alpha1.AnnotationKeyGate, v1alpha1.AnnotationKeyApprovals, v1alpha1.AnnotationKeyManagementPolicies,
	v1alpha1.AnnotationKeyUsedApprovals, v1alpha1.AnnotationKeySettledFields,
	"managementPolicies", "crossplane", "deletionTimestamp", "ownerReferences", "managedFields",
}

func (m mutator) value(v *structpb.Value, depth int) *structpb.Value {
	if m.r.IntN(12) == 0 || depth > 8 {
		return m.odd()
	}
	switch k := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		m.object(k.StructValue, depth+1)
	case *structpb.Value_ListValue:
		if n := len(k.ListValue.GetValues()); n > 0 {
			i := m.r.IntN(n)
			k.ListValue.Values[i] = m.value(k.ListValue.Values[i], depth+1)
		}
	default:
		return m.odd()
	}
	return v
}

func (m mutator) object(s *structpb.Struct, depth int) {
	if s == nil {
		return
	}
	keys := make([]string, 0, len(s.GetFields()))
	for k := range s.GetFields() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if s.Fields == nil {
		s.Fields = map[string]*structpb.Value{}
	}
	if len(keys) == 0 || m.r.IntN(8) == 0 {
		s.Fields[oddKeys[m.r.IntN(len(oddKeys))]] = m.odd()
		return
	}
	k := keys[m.r.IntN(len(keys))]
	if m.r.IntN(10) == 0 {
		delete(s.Fields, k)
		return
	}
	s.Fields[k] = m.value(s.Fields[k], depth)
}

func (m mutator) request(req *fnv1.RunFunctionRequest) {
	targets := []*structpb.Struct{req.GetObserved().GetComposite().GetResource(), req.GetInput(), req.GetContext()}
	for _, state := range []*fnv1.State{req.GetObserved(), req.GetDesired()} {
		names := make([]string, 0, 4)
		for n := range state.GetResources() {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			targets = append(targets, state.GetResources()[n].GetResource(), state.GetResources()[n].GetResource())
			if m.r.IntN(40) == 0 {
				state.Resources[n] = nil
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(req.GetRequiredResources())) {
		for _, item := range req.GetRequiredResources()[n].GetItems() {
			targets = append(targets, item.GetResource())
		}
	}
	for range 1 + m.r.IntN(6) {
		m.object(targets[m.r.IntN(len(targets))], 0)
	}
}

// fuzzSeeds are requests from all parts of the story.
func fuzzSeeds(t *testing.T, input string) []*fnv1.RunFunctionRequest {
	s := newStage(t, input)
	if input == selecting {
		s.revise("r1", "v1")
		s.required[policies.RequirementKausalityCRD] = resources(readableCRD)
		s.required[policies.RequirementPolicies], s.required[policies.RequirementUpgrades] = resources(sizePolicy("a")), resources(sizePolicy("b"))
	}
	want := desire{"a": database(1), "b": plain("x"), "c": plain("y"), "e": bucket("eu", map[string]any{}), "w": workspace("m", map[string]any{"name": "x"})}
	out := []*fnv1.RunFunctionRequest{s.request(want)}
	s.reconcile(want)
	out = append(out, s.request(want))
	s.settle(want)
	want = desire{"a": database(2, "tier", "gold"), "b": plain("z"), "d": plain("new"), "e": bucket("us", map[string]any{}), "w": workspace("n")}
	out = append(out, s.request(want))
	s.reconcile(want)
	s.annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*"}]`)
	out = append(out, s.request(want))
	s.annotate(v1alpha1.AnnotationKeyFreeze, "true")
	out = append(out, s.request(want))
	s.annotate(v1alpha1.AnnotationKeyTrace, `[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,"user":"hans",`+
		`"timestamp":"2026-01-01T12:00:00Z"}]`)
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
	out = append(out, s.request(want))
	for _, req := range out {
		held := &structpb.Struct{Fields: map[string]*structpb.Value{
			"reason":    structpb.NewStringValue(v1alpha1.ConditionReasonHeld),
			"resources": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue("x")}}),
		}}
		req.Context = &structpb.Struct{Fields: map[string]*structpb.Value{contextKey: structpb.NewStructValue(held)}}
	}
	audited := operation(input, s.xr, s.live["a"], s.live["b"])
	audited.Observed = &fnv1.State{Resources: map[string]*fnv1.Resource{}}
	return append(out, audited)
}

const managed = `{"mode":"enforce","settleGrace":"10s","gate":{"managementPolicies":"Managed"}}`

// FuzzRunFunction: no request makes it panic, modify the request, or answer
// differently a second time (KR-09-13).
func FuzzRunFunction(f *testing.F) {
	t := &testing.T{}
	seeds := slices.Concat(fuzzSeeds(t, enforce), fuzzSeeds(t, managed), fuzzSeeds(t, withProvenance), fuzzSeeds(t, narrow),
		fuzzSeeds(t, selecting), fuzzSeeds(t, ""))
	for i := range seeds {
		for j := range 30 {
			f.Add(uint8(i), uint64(j))
		}
	}
	fn := New(logging.NewNopLogger())
	fn.Now = newStage(t, "").fn.Now
	f.Fuzz(func(t *testing.T, which uint8, seed uint64) {
		req := proto.Clone(seeds[int(which)%len(seeds)]).(*fnv1.RunFunctionRequest)
		mutator{r: rand.New(rand.NewPCG(seed, 1))}.request(req)
		before := proto.Clone(req)
		rsp := fn.run(context.Background(), fn.log, req) // past the recover
		if !proto.Equal(before, req) {                   // knows NaN
			t.Errorf("request modified: %s", cmp.Diff(before, req, protocmp.Transform()))
		}
		if _, err := proto.Marshal(rsp); err != nil {
			t.Errorf("response cannot be sent: %v", err)
		}
		again := fn.run(context.Background(), fn.log, req)
		if !proto.Equal(rsp, again) {
			t.Errorf("another response: %s", cmp.Diff(rsp, again, protocmp.Transform()))
		}
	})
}
