package channel

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// FreezeAction returns what may be done about the freeze of an object, by its annotations: it is frozen, or unfrozen.
func FreezeAction(annotations map[string]string, now time.Time) Action {
	if approval.FreezeOf(annotations, now) != nil {
		return ActionUnfreeze
	}
	return ActionFreeze
}

// FreezeFingerprint returns the fingerprint of an object as it is shown: of its own freeze, 16 hex digits.
func FreezeFingerprint(annotations map[string]string) string {
	sum := sha256.Sum256([]byte(annotations[v1alpha1.AnnotationKeyFreeze]))
	return hex.EncodeToString(sum[:8])
}

// DecideFreeze returns what a click about the freeze of an object means, by the annotations that it has now. The freeze of another user is removed
// where it is the one that was shown (KR-17-17).
func DecideFreeze(c Click, on v1alpha1.ObjectReference, annotations map[string]string, user string) (Decision, Refusal) {
	switch {
	case c.Action != ActionFreeze && c.Action != ActionUnfreeze:
		return Decision{}, RefusedNotOffered
	case c.Shown == "" || c.Shown != FreezeFingerprint(annotations):
		return Decision{}, RefusedChanged
	case c.Action != FreezeAction(annotations, c.At):
		return Decision{}, RefusedNotOffered
	}
	edit := annotate.Unfreeze(user, true, c.At)
	if c.Action == ActionFreeze {
		at := metav1.NewTime(c.At.UTC().Truncate(time.Second))
		f := v1alpha1.Freeze{User: user, Message: strings.TrimSpace(c.Reason), At: &at}
		if f.Message == "" {
			return Decision{}, RefusedIncomplete
		}
		edit = annotate.Freeze(f, false)
	}
	shown := func(now map[string]string) bool { return FreezeFingerprint(now) == c.Shown }
	return Decision{On: on, Writes: []Write{{Key: v1alpha1.AnnotationKeyFreeze, Edit: annotate.Only(shown, edit)}}}, ""
}
