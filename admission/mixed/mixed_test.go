package mixed

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestJoin has every combination of two decisions and a policy (KR-05-56, KR-05-62, KR-05-63, KR-05-64).
func TestJoin(t *testing.T) {
	refused, allowed, claims := Half{}, Half{Allowed: true}, Half{Allowed: true, Claims: true}
	rejected := Half{Rejected: true}
	hold := Policy{Causes: v1alpha1.MixedCausesHold}
	separates := Policy{Causes: v1alpha1.MixedCausesHold, Separates: true}
	admit, refuse := Policy{Causes: v1alpha1.MixedCausesAdmit}, Policy{Causes: v1alpha1.MixedCausesRefuse}
	all := []Policy{hold, separates, admit, refuse}
	for _, tc := range []struct {
		reason     string
		held, rest Half
		policies   []Policy
		want       Outcome
	}{
		{"both pass", allowed, allowed, all, Passes},
		{"one approval is claimed", claims, allowed, all, Passes},
		{"one approval is claimed", allowed, claims, all, Passes},
		{"two cannot be claimed at once", claims, claims, []Policy{separates}, PassesWithoutHeld},
		{"two cannot be claimed at once", claims, claims, []Policy{admit}, PassesWithBothCauses},
		{"two cannot be claimed at once", claims, claims, []Policy{hold, refuse}, HeldRefused},
		{"the intent's half is refused", allowed, refused, all, RestRefused},
		{"the intent's half is refused", claims, refused, all, RestRefused},
		{"both are refused", refused, refused, all, HeldRefused},
		{"both are refused", rejected, refused, all, HeldRefused},
		{"the writer can leave it out", refused, allowed, []Policy{separates}, PassesWithoutHeld},
		{"the writer can leave it out", rejected, claims, []Policy{separates}, PassesWithoutHeld},
		{"the policy admits both causes", refused, allowed, []Policy{admit}, PassesWithBothCauses},
		{"a rejection holds whatever the policy", rejected, allowed, []Policy{admit}, HeldRefused},
		{"nothing lets it pass", refused, allowed, []Policy{hold, refuse}, HeldRefused},
	} {
		for _, p := range tc.policies {
			t.Run(fmt.Sprintf("%+v/%+v/%+v", tc.held, tc.rest, p), func(t *testing.T) {
				if got := Join(tc.held, tc.rest, p); got != tc.want {
					t.Errorf("%s: want %s, got %s", tc.reason, tc.want, got)
				}
			})
		}
	}
}

// TestSplit covers KR-05-55, KR-05-57.
func TestSplit(t *testing.T) {
	leaves := []change.Leaf{{Path: "spec.size", Value: "1"}, {Path: "spec.zone", Value: "a"}, {Path: "spec.tier", Value: "gold"}}
	for name, tc := range map[string]struct {
		reason string
		held   *request.Held
		want   Parts
	}{
		"Nothing": {reason: "nothing is remembered", want: Parts{Held: map[string]bool{}, Rest: 3}},
		"Whole": {reason: "all of the object is held", held: &request.Held{Whole: true},
			want: Parts{Held: map[string]bool{"spec.size": true, "spec.zone": true, "spec.tier": true}}},
		"Some": {reason: "by path and value", held: &request.Held{Values: map[string]string{"spec.size": "1", "spec.zone": "b", "spec.other": "x"}},
			want: Parts{Held: map[string]bool{"spec.size": true}, Both: []string{"spec.zone"}, Rest: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Split(leaves, tc.held)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
