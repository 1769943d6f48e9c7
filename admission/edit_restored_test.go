package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestDiscardGone: what a backup brings of an object that is gone does not count for the new one, but lasting approvals,
// which are its manifest's (KR-13-58).
func TestDiscardGone(t *testing.T) {
	const key = v1alpha1.AnnotationKeyApprovePrefix
	approvals := fx.Annotate(key+"0123456789abcdef", "once", key+"0123456789abcdee", "always",
		v1alpha1.AnnotationKeyApprovals, `[{"kind":"ConfigMap","name":"a","mode":"generation","generation":9},{"kind":"ConfigMap","name":"b","mode":"always"}]`)
	younger := func(o *unstructured.Unstructured) { o.SetCreationTimestamp(metav1.NewTime(fx.Noon)) } // than its hop
	xr, resize := fx.With(fx.Composite(), approvals), fx.Set("l", "spec", "size")
	for name, tc := range map[string]struct {
		req  *Request
		gone bool
		// again: the approval by id is given to the new object.
		again bool
	}{
		"Created":       {req: by(byCrossplane(Create, xr), fx.Alice, "velero"), gone: true},
		"CreatedAnew":   {req: by(byCrossplane(Create, fx.With(xr, fx.Unannotate(v1alpha1.AnnotationKeyTrace))), fx.Alice, "kubectl")},
		"ChangedCopy":   {req: by(byCrossplane(Update, fx.With(xr, younger), resize), fx.Alice, "kubectl"), gone: true},
		"ChangedOwn":    {req: by(byCrossplane(Update, xr, resize), fx.Alice, "kubectl")},
		"UnchangedCopy": {req: by(byCrossplane(Update, fx.With(xr, younger)), fx.Alice, "kubectl"), gone: true},
		"ApprovedCopy": {req: by(byCrossplane(Update, fx.With(xr, younger), fx.Annotate(key+"0123456789abcdef", "generation")), fx.Alice, "kubectl"),
			gone: true, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Evaluator{World: setting{}.world(), Options: enforced()}
			d, err := e.Evaluate(t.Context(), tc.req)
			require.NoError(t, err)
			require.True(t, d.Allowed, d.Message)
			after := tc.req.Object.GetAnnotations()
			for k, v := range d.Annotations {
				if after[k] = ""; v != nil {
					after[k] = *v
				}
			}
			assert.Equal(t, tc.gone && !tc.again, after[key+"0123456789abcdef"] == "", "by id")
			if tc.req.Operation == Update {
				assert.False(t, parent.Copied(after, tc.req.Object.GetCreationTimestamp().Time), "once is enough")
			}
			assert.Equal(t, "always", after[key+"0123456789abcdee"])
			assert.Equal(t, !tc.gone, len(after[v1alpha1.AnnotationKeyApprovals]) > 60, after[v1alpha1.AnnotationKeyApprovals])
			assert.Contains(t, after[v1alpha1.AnnotationKeyApprovals], `"b"`)
			if tc.gone {
				assert.Empty(t, after[v1alpha1.AnnotationKeySettledGeneration])
			}
		})
	}
}
