package parent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// olderBy is how much older than its object a hop on it may be: clocks that were not measured yet may differ by minutes.
const olderBy = 5 * time.Minute

// Copied reports whether an object has the annotations of one that is gone, as a backup that was restored while no webhook was
// called: its own hop is older than the object itself (KR-13-58).
func Copied(annotations map[string]string, created time.Time) bool {
	value := annotations[v1alpha1.AnnotationKeyTrace]
	if value == "" || created.IsZero() {
		return false
	}
	limit := created.Add(-olderBy)
	// The own hop is the last one. Most objects are done here, without decoding.
	const key = `"timestamp":"`
	_, last, ok := strings.Cut(value[max(strings.LastIndex(value, key), 0):], key)
	if at, _, _ := strings.Cut(last, `"`); !ok || !before(at, limit) {
		return false
	}
	var hops []struct {
		Timestamp string `json:"timestamp"`
	}
	if json.Unmarshal([]byte(value), &hops) != nil || len(hops) == 0 {
		return false
	}
	return before(hops[len(hops)-1].Timestamp, limit)
}

// before reports whether the text is a time before the limit.
func before(text string, limit time.Time) bool {
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && at.Before(limit)
}

// goneFrom is the prefix of annotations that an object left that is gone.
const goneFrom = "gone."

// discard removes the annotations of an object that was deleted, if this one is a copy of it: none of
// its approvals count, except lasting ones by id. What is removed is kept in Gone.
func (s *State) discard() {
	if s.Copied = Copied(s.Annotations, s.Created); !s.Copied {
		return
	}
	for _, k := range slices.Collect(maps.Keys(s.Annotations)) {
		switch v := s.Annotations[k]; {
		case k == v1alpha1.AnnotationKeyTrace, k == v1alpha1.AnnotationKeySettledGeneration, k == v1alpha1.AnnotationKeySettledState,
			k == v1alpha1.AnnotationKeyClaims, k == v1alpha1.AnnotationKeyApprovals,
			v1alpha1.IsApprove(k) && v != string(v1alpha1.ApprovalAlways):
			s.Annotations[goneFrom+k] = v
			delete(s.Annotations, k)
		}
	}
}

// Gone returns the annotations of a copied object that do not count; nil for any other object.
func (s *State) Gone() map[string]string {
	if !s.Copied {
		return nil
	}
	out := map[string]string{}
	for k, v := range s.Annotations {
		if name, ok := strings.CutPrefix(k, goneFrom); ok {
			out[name] = v
		}
	}
	return out
}
