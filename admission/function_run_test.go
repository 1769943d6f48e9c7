package admission_test

import (
	"context"
	"fmt"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn"
	"github.com/kausality-io/function-kausality/fn/policies"
)

func init() { admission.RunFunction = runFunction }

// runFunction runs the composition function for one reconcile, twice: the same
// request has the same response.
func runFunction(p admission.Pipeline) admission.Ran {
	req := &fnv1.RunFunctionRequest{
		Input:    structOf(map[string]any{"mode": string(p.Mode), "settleGrace": "1s", "gate": map[string]any{"managementPolicies": "Managed"}}),
		Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: structOf(p.XR.Object)}, Resources: resourcesOf(p.Observed)},
		Desired:  &fnv1.State{Resources: resourcesOf(p.Desired)},
	}
	if p.Rule != nil { // as Crossplane fetches it
		rule, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.Rule)
		if err != nil {
			panic(err)
		}
		req.RequiredResources = map[string]*fnv1.Resources{
			policies.RequirementKausalityCRD: fetched(map[string]any{"kind": "CustomResourceDefinition",
				"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyCrossplaneReads: v1alpha1.CrossplaneReadsAll}}}),
			policies.RequirementRulesCRD: fetched(map[string]any{"kind": "CustomResourceDefinition"}),
			policies.RequirementRules:    fetched(rule),
		}
	}
	f := fn.New(logging.NewNopLogger())
	f.Now = func() time.Time { return p.Now }
	rsp, err := f.RunFunction(context.Background(), req)
	again, _ := f.RunFunction(context.Background(), req)
	switch {
	case err != nil:
		panic(err)
	case !proto.Equal(rsp, again):
		panic("the same request has another response")
	}
	out := admission.Ran{Desired: map[string]*unstructured.Unstructured{}}
	for _, c := range rsp.GetConditions() {
		status := map[fnv1.Status]string{fnv1.Status_STATUS_CONDITION_TRUE: "True", fnv1.Status_STATUS_CONDITION_FALSE: "False"}[c.GetStatus()]
		out.Conditions = append(out.Conditions, map[string]any{"type": c.GetType(), "status": status, "reason": c.GetReason(), "message": c.GetMessage()})
	}
	for name, r := range rsp.GetDesired().GetResources() {
		out.Desired[name] = &unstructured.Unstructured{Object: whole(r.GetResource().AsMap()).(map[string]any)}
	}
	for _, r := range rsp.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			panic(fmt.Sprintf("the run is fatal: %s", r.GetMessage()))
		}
	}
	return out
}

func resourcesOf(objects map[string]*unstructured.Unstructured) map[string]*fnv1.Resource {
	out := map[string]*fnv1.Resource{}
	for name, o := range objects {
		out[name] = &fnv1.Resource{Resource: structOf(o.Object)}
	}
	return out
}

func fetched(content map[string]any) *fnv1.Resources {
	return &fnv1.Resources{Items: []*fnv1.Resource{{Resource: structOf(content)}}}
}

func structOf(content map[string]any) *structpb.Struct {
	out, err := structpb.NewStruct(content)
	if err != nil {
		panic(err)
	}
	return out
}

// whole numbers as the API server's decoder has them.
func whole(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			t[k] = whole(e)
		}
	case []any:
		for i, e := range t {
			t[i] = whole(e)
		}
	case float64:
		return int64(t)
	}
	return v
}
