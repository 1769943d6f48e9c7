package approval

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// At returns the set in force at a time: without the approvals that have expired, and without a freeze that has ended
// (KR-14-30, KR-14-31). The set itself is not modified.
func (s Set) At(now time.Time) Set {
	if s.Freeze != nil && Ended(s.Freeze.Expiry, now) {
		s.Freeze = nil
	}
	if slices.ContainsFunc(s.Approvals, func(e Entry) bool { return Ended(e.Expiry, now) }) {
		s.Approvals = slices.DeleteFunc(slices.Clone(s.Approvals), func(e Entry) bool { return Ended(e.Expiry, now) })
	}
	return s
}

// ParseAt returns the same as Parse, restricted to the decisions in force at a time.
func ParseAt(annotations map[string]string, now time.Time) Set { return Parse(annotations).At(now) }

// Ended reports whether an expiry has passed; nil never does.
func Ended(expiry *metav1.Time, now time.Time) bool { return expiry != nil && !now.Before(expiry.Time) }

// FreezeOf returns the freeze that annotations declare and that is in force at a time, without the rest of the Set;
// nil where there is no such freeze.
func FreezeOf(annotations map[string]string, now time.Time) *v1alpha1.Freeze {
	value, ok := annotations[v1alpha1.AnnotationKeyFreeze]
	if !ok {
		return nil
	}
	return ParseAt(map[string]string{v1alpha1.AnnotationKeyFreeze: value}, now).Freeze
}

// invalidExpiries returns the error about the first expiry in a list of entries that is not a valid time, with its
// path; nil where that is not the error of the value (KR-14-32).
func invalidExpiries(value string) error {
	var list []struct {
		Expiry any `json:"expiry"`
	}
	if annotation.Unmarshal(value, annotation.MaxUser, &list) != nil {
		return nil //nolint:nilerr // The caller has an error for what is no list.
	}
	for i, e := range list {
		if err := checkExpiry(e.Expiry); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

// invalidExpiry returns the error about an expiry of an object that is not a valid time, as invalidExpiries does for
// a list.
func invalidExpiry(value string) error {
	var o struct {
		Expiry any `json:"expiry"`
	}
	if object(value, &o) != nil {
		return nil //nolint:nilerr // The caller has an error for what is no object.
	}
	return checkExpiry(o.Expiry)
}

// checkExpiry returns an error for an expiry that is set and is not a valid time.
func checkExpiry(expiry any) error {
	text, ok := expiry.(string)
	if _, err := time.Parse(time.RFC3339, text); expiry == nil || ok && err == nil {
		return nil
	}
	raw, err := json.Marshal(expiry)
	if err != nil {
		return annotation.Brief(err)
	}
	return annotation.Brief(fmt.Errorf("expiry must be a time in RFC 3339, as in 2026-01-31T18:00:00Z, not %s", raw))
}
