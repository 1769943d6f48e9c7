package annotate

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	keyApprovals  = v1alpha1.AnnotationKeyApprovals
	keyRejections = v1alpha1.AnnotationKeyRejections
	keyFreeze     = v1alpha1.AnnotationKeyFreeze
	keyClaims     = v1alpha1.AnnotationKeyClaims
	id            = "1f2e3d4c5b6a7980"
)

type annotations = map[string]string

// spentClaims record an approval as used.
func spentClaims(t *testing.T, key, value string) string {
	t.Helper()
	set := approval.Parse(annotations{key: value})
	if len(set.Approvals) != 1 {
		t.Fatalf("%s=%s is no approval", key, value)
	}
	return approval.Claims{{Content: set.Approvals[0].Content, State: v1alpha1.ClaimUsed, At: metav1.NewTime(time.Unix(0, 0))}}.String()
}

var (
	approvalOfA  = v1alpha1.Approval{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}
	rejectionOfA = v1alpha1.Rejection{APIVersion: "v1", Kind: "ConfigMap", Name: "a", Reason: "audit"}
	morning      = metav1.NewTime(time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC))
)

// editCase is an edit of annotations, and what is written, or a part of the error.
type editCase struct {
	reason string
	in     annotations
	key    string
	edit   Edit
	want   string
	err    string
}

// testEdits checks what edits write: what parses, and the same when they are repeated.
func testEdits(t *testing.T, cases map[string]editCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.in)
			got, err := edited(tc.in, tc.key, tc.edit)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("%s: want error %q, got %v", tc.reason, tc.err, err)
			}
			if diff := cmp.Diff(before, tc.in); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
			if err != nil {
				return
			}
			if got.After == nil || *got.After != tc.want {
				t.Errorf("%s: want %s, got %v", tc.reason, tc.want, got.After)
			}
			have, stood := tc.in[tc.key]
			if unchanged := stood && have == tc.want; got.Unchanged != unchanged {
				t.Errorf("%s: unchanged is %t", tc.reason, got.Unchanged)
			}
			if err := approval.Validate(tc.key, *got.After); err != nil {
				t.Errorf("%s: what is written does not parse: %v", tc.reason, err)
			}
			again, err := edited(annotations{tc.key: *got.After}, tc.key, tc.edit)
			frozen := tc.key == keyFreeze && err != nil
			if !frozen && (err != nil || !again.Unchanged) {
				t.Errorf("%s: a second time it is %+v, %v", tc.reason, again, err)
			}
		})
	}
}

// TestApprove covers KR-10-09 for approvals of one difference.
func TestApprove(t *testing.T) {
	testEdits(t, map[string]editCase{
		"Approve": {
			reason: "what a message suggests",
			in:     annotations{},
			key:    ApproveKey(id),
			edit:   Approve(id, "once"),
			want:   "once",
		},
		"ApproveAgain": {
			reason: "once is enough",
			in:     annotations{ApproveKey(id): "once"},
			key:    ApproveKey(id),
			edit:   Approve(id, "once"),
			want:   "once",
		},
		"ApproveLonger": {
			reason: "a longer approval takes the place of a shorter one",
			in:     annotations{ApproveKey(id): "once"},
			key:    ApproveKey(id),
			edit:   Approve(id, "always"),
			want:   "always",
		},
		"ApproveShorter": {
			reason: "no longer approval is shortened",
			in:     annotations{ApproveKey(id): "always"},
			key:    ApproveKey(id),
			edit:   Approve(id, "once"),
			want:   "always",
		},
		"ApproveGarbage": {
			reason: "what is no approval is replaced",
			in:     annotations{ApproveKey(id): "yes"},
			key:    ApproveKey(id),
			edit:   Approve(id, "once"),
			want:   "once",
		},
		"ApproveMode": {
			reason: "there are three modes",
			key:    ApproveKey(id),
			edit:   Approve(id, "twice"),
			err:    "mode must be once, generation or always",
		},
		"ApproveSpent": {
			reason: "the same approval would have no effect",
			in:     annotations{keyClaims: spentClaims(t, ApproveKey(id), "once")},
			key:    ApproveKey(id),
			edit:   Approve(id, "once"),
			want:   "once: again, after generation 0",
		},
		"ApproveUnreviewed": {
			reason: "the webhook that traces the object has not reviewed it",
			in:     annotations{ApproveKey(id): "once", v1alpha1.AnnotationKeyTrace: "[]"},
			key:    ApproveKey(id),
			edit:   Approve(id, "once"),
			want:   "once: given again",
		},
		"ApproveOtherMode": {
			reason: "another mode is another approval",
			in:     annotations{keyClaims: spentClaims(t, ApproveKey(id), "once")},
			key:    ApproveKey(id),
			edit:   Approve(id, "generation"),
			want:   "generation",
		},
	})
}

// TestAddApproval covers KR-10-09 for the list of approvals.
func TestAddApproval(t *testing.T) {
	testEdits(t, map[string]editCase{
		"List": {
			reason: "the first",
			key:    keyApprovals,
			edit:   AddApproval(approvalOfA),
			want:   `[{"apiVersion":"v1","kind":"ConfigMap","name":"a"}]`,
		},
		"ListNext": {
			reason: "YAML is read, unknown fields are kept",
			in:     annotations{keyApprovals: "- kind: X\n  name: b\n  ticket: SHOP-1\n"},
			key:    keyApprovals,
			edit:   AddApproval(approvalOfA),
			want:   `[{"kind":"X","name":"b","ticket":"SHOP-1"},{"apiVersion":"v1","kind":"ConfigMap","name":"a"}]`,
		},
		"ListSame": {
			reason: "defaults spelled out are the same approval",
			in:     annotations{keyApprovals: `[{"mode":"once","name":"a","kind":"ConfigMap","apiVersion":"v1"}]`},
			key:    keyApprovals,
			edit:   AddApproval(approvalOfA),
			want:   `[{"mode":"once","name":"a","kind":"ConfigMap","apiVersion":"v1"}]`,
		},
		"ListGarbage": {
			reason: "what does not parse may be another user's",
			in:     annotations{keyApprovals: "[{"},
			key:    keyApprovals,
			edit:   AddApproval(approvalOfA),
			err:    "does not parse",
		},
		"ListInvalid": {
			reason: "a slip must not match everything",
			key:    keyApprovals,
			edit:   AddApproval(v1alpha1.Approval{Name: "a"}),
			err:    "kind is required",
		},
		"ListSpent": {
			reason: "it would have no effect",
			in:     annotations{keyClaims: spentClaims(t, keyApprovals, `[{"apiVersion":"v1","kind":"ConfigMap","name":"a"}]`)},
			key:    keyApprovals,
			edit:   AddApproval(approvalOfA),
			err:    "would have no effect",
		},
	})
}

// TestRejections covers KR-10-09 for rejections that are added and withdrawn.
func TestRejections(t *testing.T) {
	testEdits(t, map[string]editCase{
		"Rejection": {
			reason: "the first",
			key:    keyRejections,
			edit:   AddRejection(rejectionOfA),
			want:   `[{"apiVersion":"v1","kind":"ConfigMap","name":"a","reason":"audit"}]`,
		},
		"RejectionSame": {
			reason: "once is enough",
			in:     annotations{keyRejections: "- {apiVersion: v1, kind: ConfigMap, name: a, reason: audit}"},
			key:    keyRejections,
			edit:   AddRejection(rejectionOfA),
			want:   "- {apiVersion: v1, kind: ConfigMap, name: a, reason: audit}",
		},
		"RejectionReason": {
			reason: "users must see it",
			key:    keyRejections,
			edit:   AddRejection(v1alpha1.Rejection{Kind: "X", Name: "a"}),
			err:    "reason is required",
		},
		"RejectionGarbage": {
			reason: "what does not parse rejects everything, and stays",
			in:     annotations{keyRejections: "{"},
			key:    keyRejections,
			edit:   AddRejection(rejectionOfA),
			err:    "does not parse",
		},
		"RejectionCovered": {
			reason: "one for ever is enough",
			in:     annotations{keyRejections: "- {apiVersion: v1, kind: ConfigMap, name: a, reason: audit}"},
			key:    keyRejections,
			edit:   AddRejection(v1alpha1.Rejection{APIVersion: "v1", Kind: "ConfigMap", Name: "a", Reason: "audit", Generation: 3}),
			want:   "- {apiVersion: v1, kind: ConfigMap, name: a, reason: audit}",
		},
		"Withdraw": {
			reason: "those of others stay, unknown fields included",
			in: annotations{keyRejections: "- {apiVersion: v1, kind: ConfigMap, name: a, reason: audit}\n- {apiVersion: v1, kind: ConfigMap," +
				" name: b, reason: x, ticket: T}"},
			key:  keyRejections,
			edit: WithdrawRejections(v1alpha1.Rejection{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}),
			want: `[{"apiVersion":"v1","kind":"ConfigMap","name":"b","reason":"x","ticket":"T"}]`,
		},
		"WithdrawNone": {
			reason: "nothing of it there",
			in:     annotations{keyRejections: "[{kind: X, name: a, reason: audit}]"},
			key:    keyRejections,
			edit:   WithdrawRejections(v1alpha1.Rejection{Kind: "X", Name: "b"}),
			want:   "[{kind: X, name: a, reason: audit}]",
		},
		"WithdrawGarbage": {
			reason: "what does not parse may be another user's",
			in:     annotations{keyRejections: "{"},
			key:    keyRejections,
			edit:   WithdrawRejections(rejectionOfA),
			err:    "does not parse",
		},
	})
}

// TestFreezeAndSnooze covers KR-10-09 for freezes and snoozes.
func TestFreezeAndSnooze(t *testing.T) {
	f := v1alpha1.Freeze{User: "hans", Message: "incident", At: &morning}
	testEdits(t, map[string]editCase{
		"Freeze": {
			reason: "who, why, when",
			key:    keyFreeze,
			edit:   Freeze(f, false),
			want:   `{"user":"hans","message":"incident","at":"2026-01-05T09:30:00Z"}`,
		},
		"FreezeFalse": {
			reason: "false is not frozen",
			in:     annotations{keyFreeze: "false"},
			key:    keyFreeze,
			edit:   Freeze(f, false),
			want:   `{"user":"hans","message":"incident","at":"2026-01-05T09:30:00Z"}`,
		},
		"FreezeAgain": {
			reason: "another user's freeze stays",
			in:     annotations{keyFreeze: `{"user":"alice","message":"audit"}`},
			key:    keyFreeze,
			edit:   Freeze(f, false),
			err:    "it is frozen already by alice (audit)",
		},
		"FreezeUnparsed": {
			reason: "what does not parse counts as frozen",
			in:     annotations{keyFreeze: "{"},
			key:    keyFreeze,
			edit:   Freeze(f, false),
			err:    "it is frozen already",
		},
		"FreezeOverwritten": {
			reason: "unless it is meant",
			in:     annotations{keyFreeze: "true"},
			key:    keyFreeze,
			edit:   Freeze(f, true),
			want:   `{"user":"hans","message":"incident","at":"2026-01-05T09:30:00Z"}`,
		},
		"Snooze": {
			reason: "until then",
			key:    v1alpha1.AnnotationKeySnooze,
			edit:   Snooze(v1alpha1.Snooze{Expiry: morning, User: "hans"}),
			want:   `{"expiry":"2026-01-05T09:30:00Z","user":"hans"}`,
		},
		"SnoozeWithoutLimit": {
			reason: "for ever is not a time",
			key:    v1alpha1.AnnotationKeySnooze,
			edit:   Snooze(v1alpha1.Snooze{}),
			err:    "expiry is required",
		},
	})
}

// The last entry takes the annotation with it, and there may be none.
func TestWithdrawLast(t *testing.T) {
	edit := WithdrawRejections(v1alpha1.Rejection{Kind: "X", Name: "a"})
	for _, in := range []annotations{{keyRejections: "[{kind: X, name: a, reason: audit}]"}, {}} {
		if got, err := edited(in, keyRejections, edit); err != nil || got.After != nil {
			t.Errorf("%v: %+v, %v", in, got, err)
		}
	}
}
