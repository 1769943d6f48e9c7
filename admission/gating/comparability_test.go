package gating

import (
	"testing"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// What nobody can know of an external resource is said to be unknown (KR-08-22).
func TestBlind(t *testing.T) {
	cases := map[string]struct {
		reason string
		mods   []mod
		gone   bool
		want   UnknownDrift
	}{
		"Closed":      {"what there is can be compared, and that nothing is there is said", nil, false, ""},
		"Nothing":     {"a Workspace tells outputs alone", []mod{set(map[string]any{"outputs": map[string]any{}}, "status", "atProvider")}, false, UnknownNothingComparable},
		"Unreported":  {"no status at all", []mod{set(map[string]any{}, "status")}, false, UnknownNothingComparable},
		"NothingGone": {"that it is gone is known", []mod{set(map[string]any{}, "status")}, true, ""},
		"LateInit":    {"O,LI reports success where nothing is there", []mod{policies1(late, observe)}, false, UnknownGoneUnseen},
		"Open":        {"with more than that it is made, or missed", []mod{policies1(observe, update, late)}, false, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := with(instance(), tc.mods...)
			got := UnknownDriftOf(parent.Sum(o, parent.RoleManaged), external.Comparable(o.Object), tc.gone)
			if got != tc.want || (got == "") != (got.Why() == "") {
				t.Errorf("%s: got %q, %q", tc.reason, got, got.Why())
			}
		})
	}
}
