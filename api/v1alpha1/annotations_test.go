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
		"Trace":             {reason: "hops are ours", key: "kausality.io/trace", want: system},
		"Allowances":        {reason: "allowances are ours", key: "kausality.io/allowances", want: system},
		"Updaters":          {reason: "hashes are ours", key: "kausality.io/updaters", want: system},
		"Controllers":       {reason: "hashes are ours", key: "kausality.io/controllers", want: system},
		"Phase":             {reason: "a high-water mark of ours", key: "kausality.io/phase", want: system},
		"LegacyPhase":       {reason: "the legacy form is protected as well", key: "kausality.io/initialized", want: system},
		"SettledGeneration": {reason: "a latch of ours", key: "kausality.io/settled-generation", want: system},
		"SettledState":      {reason: "what it was then", key: "kausality.io/settled-state", want: system},
		"Fingerprint":       {reason: "a build hash of ours", key: "kausality.io/fingerprint", want: system},
		"LegacyFingerprint": {reason: "the legacy name is protected as well", key: "kausality.io/controller-ua-hash", want: system},
		"LastUpgrade":       {reason: "ours", key: "kausality.io/last-upgrade", want: system},
		"Claims":            {reason: "used approvals must not come back", key: "kausality.io/claims", want: system},
		"ManagementPolicies": {reason: "losing the author's value would lose a resource", key: "kausality.io/management-policies",
			want: system},
		"Gate":          {reason: "the mask's own record", key: "kausality.io/gate", want: system},
		"Held":          {reason: "what the function holds", key: "kausality.io/held", want: system},
		"HeldCreations": {reason: "what the function holds", key: "kausality.io/held-creations", want: system},
		"SettledIntent": {reason: "what the function stores", key: "kausality.io/settled-intent", want: system},
		"SettledFields": {reason: "what the function remembers", key: "kausality.io/settled-fields", want: system},
		"DerivedFrom":   {reason: "ours", key: "kausality.io/derived-from", want: system},
		"Unknown": {reason: "a key of a newer version is protected by an older one", key: "kausality.io/whatever",
			want: system},
		"Approvals":  {reason: "users approve", key: "kausality.io/approvals", want: approver},
		"Rejections": {reason: "users reject", key: "kausality.io/rejections", want: approver},
		"ApproveID":  {reason: "users approve one difference", key: "kausality.io/approve-0123456789abcdef", want: approver},
		"ApproveNothing": {reason: "without an id it approves nothing and is no user annotation", key: "kausality.io/approve-",
			want: system},
		"Freeze":       {reason: "users freeze", key: "kausality.io/freeze", want: approver},
		"Snooze":       {reason: "users snooze", key: "kausality.io/snooze", want: approver},
		"LegacySnooze": {reason: "the legacy name is a user annotation, too", key: "kausality.io/snooze-until", want: approver},
		"Mode":         {reason: "users choose the mode", key: "kausality.io/mode", want: approver},
		"Deletion":     {reason: "users request orphaning", key: "kausality.io/deletion", want: approver},
		"TraceLabel": {reason: "a label decides nothing, so it needs no approver", key: "kausality.io/trace-ticket",
			want: user},
		"Foreign":       {reason: "other domains are none of our business", key: "example.org/trace", want: want{}},
		"ForeignPrefix": {reason: "the domain ends at the slash", key: "kausality.iox/trace", want: want{}},
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
// visible (KR-07-04).
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
