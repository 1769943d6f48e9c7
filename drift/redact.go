package drift

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxObject is how large an object may be to go into a report, in bytes.
const maxObject = 256 << 10

// redact an object for a report: no managedFields, no Secret's values. nil for
// nil, and for an object that is too large to send.
func redact(o *unstructured.Unstructured) *runtime.RawExtension {
	if o == nil {
		return nil
	}
	c := o.DeepCopy()
	c.SetManagedFields(nil)
	if c.GetKind() == "Secret" && c.GetAPIVersion() == "v1" {
		for _, f := range []string{"data", "stringData"} {
			if m, ok := c.Object[f].(map[string]any); ok {
				for k := range m {
					m[k] = "<redacted>"
				}
			}
		}
		a := c.GetAnnotations()
		delete(a, "kubectl.kubernetes.io/last-applied-configuration")
		c.SetAnnotations(a)
	}
	raw, err := json.Marshal(c.Object)
	if err != nil || len(raw) > maxObject {
		return nil
	}
	return &runtime.RawExtension{Raw: raw}
}

// lifecycle phase as reports spell it.
func lifecycle(p *parent.State) string {
	switch p.Phase(p.SettledGeneration() > 0) {
	case v1alpha1.PhaseDeleting:
		return "Deleting"
	case v1alpha1.PhaseInitialized:
		return "Initialized"
	}
	return "Initializing"
}
