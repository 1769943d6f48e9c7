package kubectl

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// withoutFunction: once a revision without the step of the function is used, the condition that the function wrote last misleads no user: the
// next write of the status removes it, and until then explain reports that it is out of date (KR-12-32). With the step it is back.
func withoutFunction(t *testing.T) {
	for _, with := range []bool{false, true} {
		require.NoError(t, the.Compose(t.Context(), story.Composition{Tier: "silver", Kausality: with}))
		wait.For(t, fmt.Sprintf("the condition with the step %t", with), wait.Patience, func(ctx context.Context) error {
			before, err := hasCondition(ctx)
			if err != nil {
				return err
			}
			r := the.pipe(t, "explain", xr)
			after, err := hasCondition(ctx)
			if err != nil {
				return err
			}
			outOfDate := strings.Contains(r.out, "is out of date: the pipeline of composition revision ")
			if with && after && !outOfDate || !with && (outOfDate || !before && !after) {
				return nil
			}
			return fmt.Errorf("the condition exists before: %t, after: %t; explain prints %s", before, after, r.out)
		})
	}
}

// hasCondition reports whether the XR has the condition of the function.
func hasCondition(ctx context.Context) (bool, error) {
	o, err := the.XR(ctx)
	if err != nil {
		return false, err
	}
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == v1alpha1.ConditionKausality {
			return true, err
		}
	}
	return false, err
}
