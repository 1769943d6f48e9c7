package approval

import (
	"slices"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Holds reports whether annotations hold approvals, or a record of them.
func Holds(annotations map[string]string) bool {
	if annotations[v1alpha1.AnnotationKeyClaims] != "" {
		return true
	}
	for k := range annotations {
		if k == v1alpha1.AnnotationKeyApprovals || v1alpha1.IsApprove(k) {
			return true
		}
	}
	return false
}

// Changed returns the user annotations that a write sets and removes, each sorted,
// but for those that edits revert.
func Changed(incoming, stored map[string]string, edits map[string]*string) (written, removed []string) {
	for key, value := range incoming {
		if old, was := stored[key]; was && old == value || !v1alpha1.IsUser(key) {
			continue
		}
		if _, reverted := edits[key]; !reverted {
			written = append(written, key)
		}
	}
	for key := range stored {
		_, kept := incoming[key]
		if _, reverted := edits[key]; v1alpha1.IsUser(key) && !kept && !reverted {
			removed = append(removed, key)
		}
	}
	slices.Sort(written)
	slices.Sort(removed)
	return written, removed
}
