package admission

import (
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/admission/keys"
)

// TestUnknownKeys: only keys that mean nothing are named, with the nearest known one
// (KR-12-28).
func TestUnknownKeys(t *testing.T) {
	for key, want := range map[string]string{
		"aprove-1f2e3d4c5b6a7980":   "did you mean kausality.io/approve-1f2e3d4c5b6a7980?",
		"approve_1f2e3d4c5b6a7980":  "is none that Kausality knows, and was dropped",
		"trcae-ticket":              "did you mean kausality.io/trace-ticket?",
		"frezee":                    "did you mean kausality.io/freeze?",
		"snoze-until":               "did you mean kausality.io/snooze-until?",
		"approval":                  "did you mean kausality.io/approvals?",
		"of-a-newer-version":        "is none that Kausality knows, and was dropped",
		"approve-all":               "approves nothing, and was dropped: the id of a difference has 16 hexadecimal digits",
		"approve-1f2e3d4c5b6a79801": "approves nothing, and was dropped: the id of a difference has 16 hexadecimal digits",
	} {
		if key = "kausality.io/" + key; !keys.Meaningless(key) || !strings.Contains(keys.Unknown(key), want) {
			t.Errorf("%s: means nothing: %t, %s", key, keys.Meaningless(key), keys.Unknown(key))
		}
	}
	for key := range userSet {
		if keys.Meaningless(key) {
			t.Errorf("%s means nothing", key)
		}
	}
	for key := range systemSet {
		if !strings.HasSuffix(key, "of-a-newer-version") && keys.Meaningless(key) {
			t.Errorf("%s means nothing", key)
		}
	}
}
