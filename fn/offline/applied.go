package offline

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Applied reports whether the pipeline wants of a resource what it applied last, as far as that is recorded.
func (r *Resource) Applied(desired map[string]any) bool {
	was := r.Annotation(v1alpha1.AnnotationKeyApplied)
	return was != "" && was == DigestOf(desired)
}

// Again reports whether the pipeline wants of a resource what it applied last, and no other manager has changed or removed a field of that
// since: where values differ then, they were stored otherwise than they were applied, and will be again (KR-09-29).
func (r *Resource) Again(desired map[string]any) bool {
	return r.Applied(desired) && r.Owned.Applied(desired)
}

// Changed reports whether the last change of a resource has the last intent of its composite as its cause.
func (r *Resource) Changed(c *Composite) bool { return r.Hop != nil && same(*r.Hop, c.Intent) }

// DigestOf the desired state of an object, in hexadecimal: a value of v1alpha1.AnnotationKeyApplied.
func DigestOf(object map[string]any) string {
	sum := sha256.Sum256([]byte(annotation.MustMarshal(change.Desired(object))))
	return hex.EncodeToString(sum[:8])
}
