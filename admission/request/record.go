package request

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Fingerprint returns the fingerprint that is stored with the object, also under its legacy name: the build of the controller that changed
// it last, and that of its images alone (KR-06-23). Each is empty where none is stored.
func (r *Request) Fingerprint() (build, images string) {
	stored := r.Stored()
	v := cmp.Or(identity.Annotation(stored, v1alpha1.AnnotationKeyFingerprint), identity.Annotation(stored, v1alpha1.AnnotationKeyLegacyFingerprint))
	build, images, _ = strings.Cut(v, ".")
	return build, images
}

// LastUpgrade returns the last upgrade that is stored with the object; the zero value where none is
// stored. A value that does not parse is the bare name that older versions wrote.
func (r *Request) LastUpgrade() v1alpha1.LastUpgrade {
	var last v1alpha1.LastUpgrade
	value := identity.Annotation(r.Stored(), v1alpha1.AnnotationKeyLastUpgrade)
	if json.Unmarshal([]byte(value), &last) != nil {
		return v1alpha1.LastUpgrade{Name: value}
	}
	return last
}

// Resource returns the stored composition resource name of the object, by which approvals name it;
// empty where it is not composed. One request cannot give itself another (KR-04-12).
func (r *Request) Resource() string {
	return identity.Annotation(r.Stored(), v1alpha1.AnnotationKeyCompositionResourceName)
}

// ManagedFields returns those of the stored object; nil for none.
func (r *Request) ManagedFields() []any {
	if r.OldManagers != nil {
		return r.OldManagers.ManagedFields()
	}
	return parent.ManagedFields(r.OldObject)
}
