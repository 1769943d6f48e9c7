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

// TestEdits covers KR-10-09.
func TestEdits(t *testing.T) {
	a := v1alpha1.Approval{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}
	r := v1alpha1.Rejection{APIVersion: "v1", Kind: "ConfigMap", Name: "a", Reason: "audit"}
	at := metav1.NewTime(time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC))
	f := v1alpha1.Freeze{User: "hans", Message: "incident", At: &at}
	cases := map[string]struct {
		reason string
		in     annotations
		key    string
		edit   Edit
		want   string
		err    string
	}{
		"Approve":            {"what a message suggests", annotations{}, ApproveKey(id), Approve(id, "once"), "once", ""},
		"ApproveAgain":       {"once is enough", annotations{ApproveKey(id): "once"}, ApproveKey(id), Approve(id, "once"), "once", ""},
		"ApproveLonger":      {"a longer approval takes the place of a shorter one", annotations{ApproveKey(id): "once"}, ApproveKey(id), Approve(id, "always"), "always", ""},
		"ApproveShorter":     {"nobody's longer approval is cut short", annotations{ApproveKey(id): "always"}, ApproveKey(id), Approve(id, "once"), "always", ""},
		"ApproveGarbage":     {"what is no approval is replaced", annotations{ApproveKey(id): "yes"}, ApproveKey(id), Approve(id, "once"), "once", ""},
		"ApproveMode":        {"there are three modes", nil, ApproveKey(id), Approve(id, "twice"), "", "mode must be once, generation or always"},
		"ApproveSpent":       {"it would have no effect", annotations{keyClaims: spentClaims(t, ApproveKey(id), "once")}, ApproveKey(id), Approve(id, "once"), "", "would have no effect"},
		"ApproveOtherMode":   {"another mode is another approval", annotations{keyClaims: spentClaims(t, ApproveKey(id), "once")}, ApproveKey(id), Approve(id, "generation"), "generation", ""},
		"List":               {"the first", nil, keyApprovals, AddApproval(a), `[{"apiVersion":"v1","kind":"ConfigMap","name":"a"}]`, ""},
		"ListNext":           {"YAML is read, unknown fields are kept", annotations{keyApprovals: "- kind: X\n  name: b\n  ticket: SHOP-1\n"}, keyApprovals, AddApproval(a), `[{"kind":"X","name":"b","ticket":"SHOP-1"},{"apiVersion":"v1","kind":"ConfigMap","name":"a"}]`, ""},
		"ListSame":           {"defaults spelled out are the same approval", annotations{keyApprovals: `[{"mode":"once","name":"a","kind":"ConfigMap","apiVersion":"v1"}]`}, keyApprovals, AddApproval(a), `[{"mode":"once","name":"a","kind":"ConfigMap","apiVersion":"v1"}]`, ""},
		"ListGarbage":        {"what does not parse is somebody's", annotations{keyApprovals: "[{"}, keyApprovals, AddApproval(a), "", "does not parse"},
		"ListInvalid":        {"a slip must not match everything", nil, keyApprovals, AddApproval(v1alpha1.Approval{Name: "a"}), "", "kind is required"},
		"ListSpent":          {"it would have no effect", annotations{keyClaims: spentClaims(t, keyApprovals, `[{"apiVersion":"v1","kind":"ConfigMap","name":"a"}]`)}, keyApprovals, AddApproval(a), "", "would have no effect"},
		"Rejection":          {"the first", nil, keyRejections, AddRejection(r), `[{"apiVersion":"v1","kind":"ConfigMap","name":"a","reason":"audit"}]`, ""},
		"RejectionSame":      {"once is enough", annotations{keyRejections: "- {apiVersion: v1, kind: ConfigMap, name: a, reason: audit}"}, keyRejections, AddRejection(r), "- {apiVersion: v1, kind: ConfigMap, name: a, reason: audit}", ""},
		"RejectionReason":    {"people must be told", nil, keyRejections, AddRejection(v1alpha1.Rejection{Kind: "X", Name: "a"}), "", "reason is required"},
		"RejectionGarbage":   {"what does not parse rejects everything, and stays", annotations{keyRejections: "{"}, keyRejections, AddRejection(r), "", "does not parse"},
		"Withdraw":           {"those of others stay, unknown fields included", annotations{keyRejections: "- {apiVersion: v1, kind: ConfigMap, name: a, reason: audit}\n- {apiVersion: v1, kind: ConfigMap, name: b, reason: x, ticket: T}"}, keyRejections, WithdrawRejections(v1alpha1.Rejection{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}), `[{"apiVersion":"v1","kind":"ConfigMap","name":"b","reason":"x","ticket":"T"}]`, ""},
		"WithdrawNone":       {"nothing of it there", annotations{keyRejections: "[{kind: X, name: a, reason: audit}]"}, keyRejections, WithdrawRejections(v1alpha1.Rejection{Kind: "X", Name: "b"}), "[{kind: X, name: a, reason: audit}]", ""},
		"WithdrawGarbage":    {"what does not parse is somebody's", annotations{keyRejections: "{"}, keyRejections, WithdrawRejections(r), "", "does not parse"},
		"Freeze":             {"who, why, when", nil, keyFreeze, Freeze(f, false), `{"user":"hans","message":"incident","at":"2026-01-05T09:30:00Z"}`, ""},
		"FreezeFalse":        {"false is not frozen", annotations{keyFreeze: "false"}, keyFreeze, Freeze(f, false), `{"user":"hans","message":"incident","at":"2026-01-05T09:30:00Z"}`, ""},
		"FreezeAgain":        {"somebody else's freeze stays", annotations{keyFreeze: `{"user":"alice","message":"audit"}`}, keyFreeze, Freeze(f, false), "", "it is frozen already by alice (audit)"},
		"FreezeUnparsed":     {"what does not parse counts as frozen", annotations{keyFreeze: "{"}, keyFreeze, Freeze(f, false), "", "it is frozen already"},
		"FreezeOverwritten":  {"unless it is meant", annotations{keyFreeze: "true"}, keyFreeze, Freeze(f, true), `{"user":"hans","message":"incident","at":"2026-01-05T09:30:00Z"}`, ""},
		"Snooze":             {"until then", nil, v1alpha1.AnnotationKeySnooze, Snooze(v1alpha1.Snooze{Expiry: at, User: "hans"}), `{"expiry":"2026-01-05T09:30:00Z","user":"hans"}`, ""},
		"SnoozeWithoutLimit": {"for ever is not a time", nil, v1alpha1.AnnotationKeySnooze, Snooze(v1alpha1.Snooze{}), "", "expiry is required"},
	}
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

// The last entry takes the annotation with it, and there may be none.
func TestWithdrawLast(t *testing.T) {
	edit := WithdrawRejections(v1alpha1.Rejection{Kind: "X", Name: "a"})
	for _, in := range []annotations{{keyRejections: "[{kind: X, name: a, reason: audit}]"}, {}} {
		if got, err := edited(in, keyRejections, edit); err != nil || got.After != nil {
			t.Errorf("%v: %+v, %v", in, got, err)
		}
	}
}
