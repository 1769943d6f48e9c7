package annotate

import (
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestWithdraw covers KR-12-17 and KR-14-41: users remove what is theirs, and what is another user's on purpose alone. "" is a removal.
func TestWithdraw(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		in     annotations
		key    string
		edit   Edit
		want   string
		err    string
	}{
		"WithdrawAnyVersion": {
			reason: "an entry without apiVersion is about the object, too",
			in:     annotations{keyRejections: "- {kind: ConfigMap, name: a, reason: audit}"},
			key:    keyRejections,
			edit:   WithdrawRejections(v1alpha1.Rejection{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}),
			want:   "",
		},
		"UnfreezeOther": {
			reason: "another user's freeze is removed on purpose alone",
			in:     annotations{v1alpha1.AnnotationKeyFreeze: `{"user":"alice","message":"incident"}`},
			key:    v1alpha1.AnnotationKeyFreeze,
			edit:   Unfreeze("hans", false, time.Unix(0, 0)),
			err:    "it is frozen by alice (incident); a user with the right to approve may remove it with --overwrite",
		},
		"UnfreezeUnknown": {
			reason: "of whom it is is unknown",
			in:     annotations{v1alpha1.AnnotationKeyFreeze: "true"},
			key:    v1alpha1.AnnotationKeyFreeze,
			edit:   Unfreeze("hans", false, time.Unix(0, 0)),
			err:    "it is frozen by an unknown user",
		},
		"UnfreezeOverwrite": {
			reason: "and then it is",
			in:     annotations{v1alpha1.AnnotationKeyFreeze: `{"user":"alice"}`},
			key:    v1alpha1.AnnotationKeyFreeze,
			edit:   Unfreeze("hans", true, time.Unix(0, 0)),
			want:   "",
		},
		"UnfreezeOwn": {
			reason: "one's own needs nothing",
			in:     annotations{v1alpha1.AnnotationKeyFreeze: `{"user":"hans"}`},
			key:    v1alpha1.AnnotationKeyFreeze,
			edit:   Unfreeze("hans", false, time.Unix(0, 0)),
			want:   "",
		},
		"WithdrawVote": {
			reason: "the user's own vote",
			in:     annotations{keyClaims: `[{"content":"x","state":"open","digest":"` + id + `","mode":"once","votes":true,"by":[{"user":"hans","at":null}]}]`},
			key:    ApproveKey(id),
			edit:   Withdraw(id, "hans"),
			want:   "withdraw",
		},
		"WithdrawOther": {
			reason: "that of another user stays",
			in: annotations{ApproveKey(id): "once",
				keyClaims: `[{"content":"x","state":"open","digest":"` + id + `","mode":"once","votes":true,"by":[{"user":"alice","at":null}]}]`},
			key:  ApproveKey(id),
			edit: Withdraw(id, "hans"),
			err:  "hans has not approved " + id,
		},
		"WithdrawUnreviewed": {
			reason: "one that no webhook recorded",
			in:     annotations{ApproveKey(id): "once"},
			key:    ApproveKey(id),
			edit:   Withdraw(id, "hans"),
			want:   "",
		},
		"Entry": {
			reason: "the entry of a user with a reason, and no other",
			in:     annotations{keyApprovals: `[{"digest":"` + id + `","reason":"SHOP-17"},{"kind":"X","name":"a"}]`, keyClaims: claimed(t, "hans")},
			key:    keyApprovals,
			edit:   RemoveApprovals(GivenBy(annotations{keyApprovals: `[{"digest":"` + id + `","reason":"SHOP-17"}]`, keyClaims: claimed(t, "hans")}, id, "hans")),
			want:   `[{"kind":"X","name":"a"}]`,
		},
		"EntryOfOther": {
			reason: "that of another user stays",
			in:     annotations{keyApprovals: `[{"digest":"` + id + `","reason":"SHOP-17"}]`, keyClaims: claimed(t, "alice")},
			key:    keyApprovals,
			edit:   RemoveApprovals(GivenBy(annotations{keyApprovals: `[{"digest":"` + id + `","reason":"SHOP-17"}]`, keyClaims: claimed(t, "alice")}, id, "hans")),
			want:   `[{"digest":"` + id + `","reason":"SHOP-17"}]`,
		},
	} {
		got, err := edited(tc.in, tc.key, tc.edit)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %s: want error %q, got %v", name, tc.reason, tc.err, err)
			continue
		}
		after := ""
		if got.After != nil {
			after = *got.After
		}
		if err == nil && after != tc.want {
			t.Errorf("%s: %s: want %q, got %q", name, tc.reason, tc.want, after)
		}
	}
}

// claimed records who gave the entry of the cases.
func claimed(t *testing.T, user string) string {
	t.Helper()
	e := approval.Parse(annotations{keyApprovals: `[{"digest":"` + id + `","reason":"SHOP-17"}]`}).Approvals[0]
	return `[{"content":"` + e.Content + `","state":"open","digest":"` + id + `","by":[{"user":"` + user + `","at":null}]}]`
}
