package webhook

import (
	"context"
	"reflect"
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// dropCondition removes the condition of our function from the status of a composite once no step of its pipeline is our function:
// Crossplane keeps the conditions that a function once returned, and it would be reported as held for good (KR-10-12). A condition that
// comes back shows that it is, under another name. On failure the next write of the status is another try.
func (h StatusHandler) dropCondition(ctx context.Context, req *admission.Request) []jsonpatch.Operation {
	if h.builds == nil || req.Object == nil || req.OldObject == nil {
		return nil
	}
	i, now := conditionOf(req.Object)
	_, was := conditionOf(req.OldObject)
	revision := revisionOf(req.Object)
	if now == nil || revision == "" {
		return nil
	}
	if !reflect.DeepEqual(now, was) { // it has just been returned
		if runs, err := h.builds.Runs(ctx, revision); err == nil && !runs {
			h.builds.Keep(revision)
		}
		return nil
	}
	runs, err := h.builds.Runs(ctx, revision)
	if err != nil {
		h.Log.V(1).Info("cannot find out whether a composite still runs the function", "name", req.Object.GetName(), "error", err.Error())
	}
	if err != nil || runs {
		return nil
	}
	path := "/status/conditions/" + strconv.Itoa(i)
	return []jsonpatch.Operation{jsonpatch.NewOperation("test", path+"/type", v1alpha1.ConditionKausality), jsonpatch.NewOperation("remove", path, nil)}
}

// conditionOf our function in the status of an object, and its index; nil for none.
func conditionOf(o *unstructured.Unstructured) (int, map[string]any) {
	status, _ := o.Object["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	i := slices.IndexFunc(list, func(e any) bool {
		c, _ := e.(map[string]any)
		return c["type"] == v1alpha1.ConditionKausality
	})
	if i < 0 {
		return i, nil
	}
	return i, list[i].(map[string]any) //nolint:errcheck // It has a type.
}

// revisionOf a composite: the name of its CompositionRevision, "" for none.
func revisionOf(o *unstructured.Unstructured) string {
	spec, _ := o.Object["spec"].(map[string]any)
	if modern, ok := spec["crossplane"].(map[string]any); ok {
		spec = modern
	}
	ref, _ := spec["compositionRevisionRef"].(map[string]any)
	name, _ := ref["name"].(string)
	return name
}
