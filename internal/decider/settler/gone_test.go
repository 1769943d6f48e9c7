package settler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
)

// TestGone: with the trace that a copied object lacks, what an object that is gone left in it is removed (KR-13-58).
func TestGone(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "A",
		"metadata": map[string]any{"name": "a", "generation": int64(1)}}}
	o.SetAnnotations(map[string]string{
		"kausality.io/trace":              `[{"apiVersion":"example.org/v1","kind":"A","name":"a","generation":7,"user":"hans","timestamp":"2026-01-01T00:00:00Z"}]`,
		"kausality.io/settled-generation": "7", "kausality.io/settled-state": "7,0123456789abcdef", "kausality.io/claims": "[]",
		"kausality.io/approve-0123456789abcdef": "once", "kausality.io/approve-0123456789abcdee": "always",
	})
	for name, tc := range map[string]struct {
		created string
		want    []string
	}{
		"Copied": {created: "2026-01-01T01:00:00Z", want: []string{"kausality.io/approve-0123456789abcdef", "kausality.io/claims",
			"kausality.io/settled-generation", "kausality.io/settled-state", "kausality.io/trace"}},
		"Own": {created: "2026-01-01T00:00:00Z", want: []string{"kausality.io/trace"}},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, tc.created)
			assert.NoError(t, err)
			copied := o.DeepCopy()
			copied.SetCreationTimestamp(metav1.NewTime(at))
			s := parent.Sum(copied, parent.RoleComposite)
			hop, recorded := trace.Intent(s)
			assert.Equal(t, name == "Own", recorded)
			if !recorded {
				assert.EqualValues(t, 1, hop.Generation)
				assert.True(t, hop.Unattributed)
			}
			value := "[]"
			edits := map[string]*string{"kausality.io/trace": &value}
			gone(s, edits)
			var keys []string
			for k, v := range edits {
				keys = append(keys, k)
				assert.Equal(t, k == "kausality.io/trace", v != nil, k)
			}
			assert.ElementsMatch(t, tc.want, keys)
			none := map[string]*string{}
			gone(s, none)
			assert.Empty(t, none, "not before the trace is written")
		})
	}
}
