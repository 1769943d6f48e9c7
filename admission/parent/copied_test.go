package parent

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestCopied: annotations of an object that is gone are recognized by a hop that is older than the object; of its approvals
// only lasting ones count (KR-13-58).
func TestCopied(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hop := func(kind string, at time.Time, more string) string {
		return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":%q,"name":"a","generation":3,"user":"hans","timestamp":%q%s}`, kind, at.Format(time.RFC3339), more)
	}
	hour := created.Add(-time.Hour)
	for name, tc := range map[string]struct {
		trace string
		want  bool
	}{
		"NotTraced":  {},
		"Own":        {trace: "[" + hop("A", created, "") + "]"},
		"Later":      {trace: "[" + hop("A", created.Add(time.Hour), "") + "]"},
		"Clocks":     {trace: "[" + hop("A", created.Add(-3*time.Minute), "") + "]"},
		"OldParent":  {trace: "[" + hop("P", hour, "") + "," + hop("A", created, "") + "]"},
		"Gone":       {trace: "[" + hop("A", hour, "") + "]", want: true},
		"GoneBelow":  {trace: "[" + hop("P", hour, "") + "," + hop("A", hour, "") + "]", want: true},
		"ItsLabel":   {trace: "[" + hop("A", created, `,"labels":{"timestamp":"2020-01-01T00:00:00Z"}`) + "]"},
		"NoTime":     {trace: `[{"kind":"A","user":"hans"}]`},
		"NotDecoded": {trace: `[{"timestamp":"2020-01-01T00:00:00Z"`},
	} {
		t.Run(name, func(t *testing.T) {
			in := map[string]string{"kausality.io/approvals": "[]", "kausality.io/approve-1": "once", "kausality.io/approve-2": "always",
				"kausality.io/freeze": "true", "kausality.io/gate": "{}", "kausality.io/claims": "[]", "kausality.io/settled-generation": "3"}
			if tc.trace != "" {
				in[v1alpha1.AnnotationKeyTrace] = tc.trace
			}
			assert.Equal(t, tc.want, Copied(in, created))
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "A"}}
			o.SetAnnotations(in)
			o.SetCreationTimestamp(metav1.NewTime(created))
			s := Sum(o, RoleNone)
			if !tc.want {
				assert.Equal(t, in, s.Annotations)
				assert.EqualValues(t, 3, s.SettledGeneration())
				assert.Nil(t, s.Gone())
				return
			}
			assert.EqualValues(t, -1, s.SettledGeneration())
			for key, counts := range map[string]bool{"approvals": false, "approve-1": false, "approve-2": true, "freeze": true, "gate": true,
				"claims": false, "trace": false} {
				_, ok := s.Annotations["kausality.io/"+key]
				assert.Equal(t, counts, ok, key)
				_, gone := s.Gone()["kausality.io/"+key]
				assert.NotEqual(t, counts, gone, key)
			}
			assert.Equal(t, in, o.GetAnnotations(), "the object is unmodified")
		})
	}
}
