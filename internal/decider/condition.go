package decider

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// dropCondition returns the index of the condition of our function in the status of a composite once no step of its pipeline is our function:
// Crossplane keeps the conditions that a function once returned, and it would be reported as held for good (KR-10-12). A condition that
// comes back shows that it is, under another name. On failure the next write of the status is another try.
func (dr *Decider) dropCondition(ctx context.Context, req *admission.Request) (drop int) {
	if dr.Builds == nil || req.Object == nil || req.OldObject == nil {
		return -1
	}
	i, now := conditionOf(req.Object)
	_, was := conditionOf(req.OldObject)
	revision := revisionOf(req.Object)
	if now == nil || revision == "" {
		return -1
	}
	if !reflect.DeepEqual(now, was) { // it has just been returned
		if runs, err := dr.Builds.Runs(ctx, revision); err == nil && !runs {
			dr.Builds.Keep(revision)
		}
		return -1
	}
	runs, err := dr.Builds.Runs(ctx, revision)
	if err != nil {
		dr.Log.V(1).Info("cannot find out whether a composite still runs the function", "name", req.Object.GetName(), "error", err.Error())
	}
	if err != nil || runs {
		return -1
	}
	return i
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
