package drift

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func TestBeyondBounds(t *testing.T) {
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	drifts := func(n int, phase v1alpha1.DriftPhase, child string, age time.Duration) []v1alpha1.Drift {
		out := make([]v1alpha1.Drift, n)
		for i := range out {
			at := metav1.NewTime(now.Add(-age - time.Duration(i)*time.Second))
			out[i] = v1alpha1.Drift{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%04d", phase, child, i)},
				Spec:       v1alpha1.DriftSpec{Child: v1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: child}},
				Status:     v1alpha1.DriftStatus{Phase: phase, LastSeen: &at},
			}
		}
		return out
	}
	cases := map[string]struct {
		reason            string
		drifts            []v1alpha1.Drift
		remove, supersede []string
	}{
		"Few": {
			reason: "nothing goes while there are few",
			drifts: append(drifts(3, v1alpha1.DriftResolved, "a", time.Hour), drifts(maxOpenPerChild, v1alpha1.DriftDetected, "a", time.Hour)...),
		},
		"Aged": {
			reason: "a resolved one goes after a week, an open one never for its age",
			drifts: append(drifts(1, v1alpha1.DriftResolved, "a", keepResolved+time.Minute), drifts(1, v1alpha1.DriftDetected, "a", 2*keepResolved)...),
			remove: []string{"Resolved-a-0000"},
		},
		"ManyResolved": {
			reason: "the oldest of many resolved ones go",
			drifts: drifts(maxResolved+2, v1alpha1.DriftResolved, "a", time.Hour),
			remove: []string{fmt.Sprintf("Resolved-a-%04d", maxResolved+1), fmt.Sprintf("Resolved-a-%04d", maxResolved)},
		},
		"ManyOpen": {
			reason:    "the oldest of many open ones on one child go, those of other children stay",
			drifts:    append(drifts(maxOpenPerChild+1, v1alpha1.DriftDetected, "a", 0), drifts(2, v1alpha1.DriftDetected, "b", time.Hour)...),
			supersede: []string{fmt.Sprintf("Detected-a-%04d", maxOpenPerChild)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			remove, supersede := beyondBounds(tc.drifts, now)
			assert.Equal(t, tc.remove, names(remove), tc.reason)
			assert.Equal(t, tc.supersede, names(drop(supersede)), tc.reason)

			cached := make([]v1alpha1.Drift, len(tc.drifts))
			for i := range tc.drifts {
				o, err := Trim(tc.drifts[i].DeepCopy())
				require.NoError(t, err)
				cached[i] = *o.(*v1alpha1.Drift)
			}
			remove, supersede = beyondBounds(cached, now)
			assert.Equal(t, tc.remove, names(remove), "of what the cache keeps: %s", tc.reason)
			assert.Equal(t, tc.supersede, names(drop(supersede)), "of what the cache keeps: %s", tc.reason)
		})
	}
}

// drop are the Drifts that others supersede.
func drop(all []superseded) (out []*v1alpha1.Drift) {
	for _, s := range all {
		out = append(out, s.drifts...)
	}
	return out
}

func names(drifts []*v1alpha1.Drift) (out []string) {
	for _, d := range drifts {
		out = append(out, d.Name)
	}
	return out
}

// A resolved Drift takes little of a cache; an open one is kept whole, since its end
// is reported with what it was.
func TestTrim(t *testing.T) {
	d := func(phase v1alpha1.DriftPhase) *v1alpha1.Drift {
		return &v1alpha1.Drift{
			ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "u", OwnerReferences: []metav1.OwnerReference{{Name: "app"}},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
			Spec: v1alpha1.DriftSpec{ID: "d",
				Difference: []v1alpha1.FieldDifference{{Path: "spec.size"}}}, Status: v1alpha1.DriftStatus{Phase: phase, Resolution: "it was approved"},
		}
	}
	resolved, err := Trim(d(v1alpha1.DriftResolved))
	require.NoError(t, err)
	assert.Equal(t, &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "u"}, Spec: v1alpha1.DriftSpec{ID: "d"},
		Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftResolved}}, resolved)

	whole := d(v1alpha1.DriftDetected)
	whole.ManagedFields = nil
	detected, err := Trim(d(v1alpha1.DriftDetected))
	require.NoError(t, err)
	assert.Equal(t, whole, detected)

	gone := toolscache.DeletedFinalStateUnknown{Key: "d"}
	same, err := Trim(gone)
	require.NoError(t, err)
	assert.Equal(t, gone, same)
}
