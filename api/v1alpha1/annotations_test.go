package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnnotationOwnership: who writes an annotation (KR-02-09, KR-02-10), and
// whether approver RBAC requires the verb "approve" (KR-02-13).
func TestAnnotationOwnership(t *testing.T) {
	type want struct{ user, system, approver bool }
	system, user, approver := want{system: true}, want{user: true}, want{user: true, approver: true}

	cases := map[string]struct {
		reason string
		key    string
		want   want
	}{
		"Trace":              {"hops are ours", "kausality.io/trace", system},
		"Allowances":         {"allowances are ours", "kausality.io/allowances", system},
		"Updaters":           {"hashes are ours", "kausality.io/updaters", system},
		"Controllers":        {"hashes are ours", "kausality.io/controllers", system},
		"Phase":              {"a high-water mark of ours", "kausality.io/phase", system},
		"LegacyPhase":        {"the legacy form is protected as well", "kausality.io/initialized", system},
		"SettledGeneration":  {"a latch of ours", "kausality.io/settled-generation", system},
		"SettledState":       {"what it was then", "kausality.io/settled-state", system},
		"Fingerprint":        {"a build hash of ours", "kausality.io/fingerprint", system},
		"LegacyFingerprint":  {"the legacy name is protected as well", "kausality.io/controller-ua-hash", system},
		"LastUpgrade":        {"ours", "kausality.io/last-upgrade", system},
		"Claims":             {"used approvals must not come back", "kausality.io/claims", system},
		"ManagementPolicies": {"losing the author's value would lose a resource", "kausality.io/management-policies", system},
		"Gate":               {"the mask's own record", "kausality.io/gate", system},
		"Held":               {"what the function holds", "kausality.io/held", system},
		"HeldCreations":      {"what the function holds", "kausality.io/held-creations", system},
		"SettledIntent":      {"what the function stores", "kausality.io/settled-intent", system},
		"SettledFields":      {"what the function remembers", "kausality.io/settled-fields", system},
		"DerivedFrom":        {"ours", "kausality.io/derived-from", system},
		"Unknown":            {"a key of a newer version is protected by an older one", "kausality.io/whatever", system},
		"Approvals":          {"users approve", "kausality.io/approvals", approver},
		"Rejections":         {"users reject", "kausality.io/rejections", approver},
		"ApproveID":          {"users approve one difference", "kausality.io/approve-0123456789abcdef", approver},
		"ApproveNothing":     {"without an id it approves nothing and is no user annotation", "kausality.io/approve-", system},
		"Freeze":             {"users freeze", "kausality.io/freeze", approver},
		"Snooze":             {"users snooze", "kausality.io/snooze", approver},
		"LegacySnooze":       {"the legacy name is a user annotation, too", "kausality.io/snooze-until", approver},
		"Mode":               {"users choose the mode", "kausality.io/mode", approver},
		"Deletion":           {"users request orphaning", "kausality.io/deletion", approver},
		"TraceLabel":         {"a label decides nothing, so it needs no approver", "kausality.io/trace-ticket", user},
		"Foreign":            {"other domains are none of our business", "example.org/trace", want{}},
		"ForeignPrefix":      {"the domain ends at the slash", "kausality.iox/trace", want{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := want{user: IsUser(tc.key), system: IsKausality(tc.key) && !IsUser(tc.key), approver: NeedsApproverVerb(tc.key)}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s: %s: -want, +got:\n%s", tc.reason, tc.key, diff)
			}
			if got, want := IsKausality(tc.key), tc.want.user || tc.want.system; got != want {
				t.Errorf("%s: IsKausality(%s) = %t, want %t", tc.reason, tc.key, got, want)
			}
		})
	}
}

// TestHopJSON: the empty user of a hop is written, so that an unknown user is
// visible.
func TestHopJSON(t *testing.T) {
	raw, err := json.Marshal(Hop{APIVersion: "v1", Kind: "ConfigMap", Unattributed: true})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"v1","kind":"ConfigMap","user":"","unattributed":true}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
