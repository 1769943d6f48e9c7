package approval

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	keyApprovals  = v1alpha1.AnnotationKeyApprovals
	keyRejections = v1alpha1.AnnotationKeyRejections
	keyFreeze     = v1alpha1.AnnotationKeyFreeze
	keySnooze     = v1alpha1.AnnotationKeySnooze
	keyClaims     = v1alpha1.AnnotationKeyClaims
	keyApprove    = v1alpha1.AnnotationKeyApprovePrefix
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

type annotations = map[string]string

// parseCase is annotations, and what they hold.
type parseCase struct {
	reason string
	in     annotations
	want   Set
}

// testParse checks what annotations hold, and that they stay as they are. A warning is wanted by the annotation that it names.
func testParse(t *testing.T, cases map[string]parseCase) {
	t.Helper()
	opts := []cmp.Option{
		cmpopts.IgnoreFields(Entry{}, "Content"), cmpopts.EquateEmpty(),
		// The text of parse errors is the decoder's; that it names the key is ours.
		cmp.Transformer("Text", func(r v1alpha1.Rejection) v1alpha1.Rejection {
			if r.Name == "*" {
				r.Reason = ""
			}
			return r
		}),
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.in)
			got := Parse(tc.in)
			for i, w := range got.Warnings {
				if i < len(tc.want.Warnings) && strings.Contains(w, tc.want.Warnings[i]) && !strings.Contains(w, "\n") {
					got.Warnings[i] = tc.want.Warnings[i]
				}
			}
			if got.Freeze != nil && strings.Contains(got.Freeze.Message, "counts as frozen") {
				got.Freeze.Message = ""
			}
			if diff := cmp.Diff(tc.want, got, opts...); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, tc.in); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(Parse(tc.in), Parse(tc.in)); diff != "" {
				t.Errorf("%s: same input, other output:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestParse covers KR-02-01.
func TestParse(t *testing.T) {
	deployment := v1alpha1.Approval{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Generation: 3,
		Mode: v1alpha1.ApprovalGeneration, Relation: v1alpha1.RelationControllerChild}
	once := v1alpha1.Approval{Kind: "X", Name: "a", Mode: v1alpha1.ApprovalOnce, Relation: v1alpha1.RelationControllerChild}
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	testParse(t, map[string]parseCase{
		"Nothing": {reason: "no annotations, no decisions", want: Set{}},
		"JSON": {reason: "as tools write it",
			in:   annotations{keyApprovals: `[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","generation":3,"mode":"generation"}]`},
			want: Set{Approvals: []Entry{{Approval: deployment, Key: keyApprovals}}}},
		"YAML": {reason: "as users write it",
			in:   annotations{keyApprovals: "- apiVersion: apps/v1\n  kind: Deployment\n  name: web\n  generation: 3\n  mode: generation\n"},
			want: Set{Approvals: []Entry{{Approval: deployment, Key: keyApprovals}}}},
		"Defaults": {reason: "mode once, relation child", in: annotations{keyApprovals: `[{"kind":"X","name":"a"}]`},
			want: Set{Approvals: []Entry{{Approval: once, Key: keyApprovals}}}},
		"UnknownFields": {reason: "kept and not minded", in: annotations{keyApprovals: `[{"kind":"X","name":"a","ticket":"OPS-1"}]`},
			want: Set{Approvals: []Entry{{Approval: once, Key: keyApprovals}}}},
		"ApproveID": {reason: "one difference in one annotation", in: annotations{keyApprove + "0123456789abcdef": "always"},
			want: Set{Approvals: []Entry{{Approval: v1alpha1.Approval{Mode: v1alpha1.ApprovalAlways, Digest: "0123456789abcdef"},
				Key: keyApprove + "0123456789abcdef", Value: "always"}}}},
		"EmptyList": {reason: "no entries", in: annotations{keyApprovals: `[]`, keyRejections: `[]`}, want: Set{}},
		"BadApproval": {reason: "counts as absent, with a warning", in: annotations{keyApprovals: `{`},
			want: Set{Warnings: []string{keyApprovals}}},
		"BadMode": {reason: "counts as absent, with a warning",
			in: annotations{keyApprovals: `[{"kind":"X","name":"a","mode":"twice"}]`}, want: Set{Warnings: []string{keyApprovals}}},
		"BadApproveID": {reason: "counts as absent, with a warning", in: annotations{keyApprove + "x": "yes"},
			want: Set{Warnings: []string{keyApprove + "x"}}},
		"OneBadOfMany": {reason: "another annotation is not touched by it",
			in: annotations{keyApprove + "x": "yes", keyApprove + "y": "once"},
			want: Set{Approvals: []Entry{{Approval: v1alpha1.Approval{Mode: v1alpha1.ApprovalOnce, Digest: "y"}, Key: keyApprove + "y", Value: "once"}},
				Warnings: []string{keyApprove + "x"}}},
		"Rejection": {reason: "with a reason", in: annotations{keyRejections: `[{"kind":"X","name":"a","reason":"no"}]`},
			want: Set{Rejections: []v1alpha1.Rejection{{Kind: "X", Name: "a", Reason: "no"}}}},
		"RejectionYAML": {reason: "as users write it",
			in:   annotations{keyRejections: "- kind: X\n  name: '*'\n  generation: 4\n  reason: no\n"},
			want: Set{Rejections: []v1alpha1.Rejection{{Kind: "X", Name: "*", Generation: 4}}}},
		"BadRejection": {reason: "counts as present: everything is rejected", in: annotations{keyRejections: `[{"kind":`},
			want: Set{Rejections: []v1alpha1.Rejection{{APIVersion: "*", Kind: "*", Name: "*"}}, Warnings: []string{keyRejections}}},
		"Claims": {reason: "what became of approvals",
			in:   annotations{keyClaims: `[{"content":"c","state":"used","at":"2026-01-01T00:00:00Z"}]`},
			want: Set{Claims: Claims{{Content: "c", State: v1alpha1.ClaimUsed, At: at}}}},
		"BadClaims": {reason: "only we write them", in: annotations{keyClaims: `{`}, want: Set{}},
		"Foreign": {reason: "other annotations are not read",
			in: annotations{"example.org/freeze": "true", "kausality.io/trace": "["}, want: Set{}},
	})
}

// TestParseFreezeAndSnooze covers KR-02-08.
func TestParseFreezeAndSnooze(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	testParse(t, map[string]parseCase{
		"Freeze": {reason: "who, why, when",
			in:   annotations{keyFreeze: `{"user":"alice","message":"audit","at":"2026-01-01T00:00:00Z"}`},
			want: Set{Freeze: &v1alpha1.Freeze{User: "alice", Message: "audit", At: &at}}},
		"FreezeYAML": {reason: "as users write it", in: annotations{keyFreeze: "user: alice\nmessage: audit"},
			want: Set{Freeze: &v1alpha1.Freeze{User: "alice", Message: "audit"}}},
		"FreezeLegacy": {reason: "the legacy form", in: annotations{keyFreeze: "true"}, want: Set{Freeze: &v1alpha1.Freeze{}}},
		"FreezeFalse":  {reason: "not frozen", in: annotations{keyFreeze: "false"}, want: Set{}},
		"BadFreeze": {reason: "counts as frozen", in: annotations{keyFreeze: "until monday"},
			want: Set{Freeze: &v1alpha1.Freeze{}, Warnings: []string{keyFreeze}}},
		"EmptyFreeze": {reason: "counts as frozen: a user meant something by it", in: annotations{keyFreeze: ""},
			want: Set{Freeze: &v1alpha1.Freeze{}, Warnings: []string{keyFreeze}}},
		"BadFreezeTime": {reason: "counts as frozen", in: annotations{keyFreeze: `{"at":"noon"}`},
			want: Set{Freeze: &v1alpha1.Freeze{}, Warnings: []string{keyFreeze}}},
		"Snooze": {reason: "until when, who, why",
			in:   annotations{keySnooze: `{"expiry":"2026-01-01T00:00:00Z","user":"bob","message":"m"}`},
			want: Set{Snooze: &v1alpha1.Snooze{Expiry: at, User: "bob", Message: "m"}}},
		"SnoozeTime": {reason: "the legacy value", in: annotations{keySnooze: "2026-01-01T00:00:00Z"},
			want: Set{Snooze: &v1alpha1.Snooze{Expiry: at}}},
		"SnoozeLegacy": {reason: "the legacy name", in: annotations{v1alpha1.AnnotationKeyLegacySnooze: "2026-01-01T00:00:00Z"},
			want: Set{Snooze: &v1alpha1.Snooze{Expiry: at}}},
		"SnoozeBoth": {reason: "the later of two",
			in:   annotations{keySnooze: "2025-01-01T00:00:00Z", v1alpha1.AnnotationKeyLegacySnooze: "2026-01-01T00:00:00Z"},
			want: Set{Snooze: &v1alpha1.Snooze{Expiry: at}}},
		"BadSnooze": {reason: "counts as absent: rather a notification too many", in: annotations{keySnooze: "tomorrow"},
			want: Set{Warnings: []string{keySnooze}}},
	})
}

// TestValidate covers KR-02-02.
func TestValidate(t *testing.T) {
	cases := map[string]struct {
		reason     string
		key, value string
		want       string
	}{
		"Approvals": {reason: "valid", key: keyApprovals, value: `[{"kind":"X","name":"a"}]`},
		"ApprovalsResource": {reason: "the composition resource name will do", key: keyApprovals,
			value: `[{"kind":"X","resource":"db"}]`},
		"ApprovalsDigest": {reason: "a digest suffices", key: keyApprovals, value: `[{"digest":"0123"}]`},
		"ApprovalsExternal": {reason: "external work", key: keyApprovals,
			value: `[{"kind":"X","name":"a","relation":"External","verbs":["Delete"]}]`},
		"ApprovalsSyntax":   {reason: "no JSON and no YAML", key: keyApprovals, value: "[{", want: "did not find"},
		"ApprovalsNotAList": {reason: "an object is no list", key: keyApprovals, value: `{"kind":"X"}`, want: "cannot unmarshal"},
		"ApprovalsNoKind": {reason: "a slip must not match everything", key: keyApprovals, value: `[{"name":"a"}]`,
			want: "kind is required"},
		"ApprovalsNoName": {reason: "a slip must not match everything", key: keyApprovals, value: `[{"kind":"X"}]`,
			want: "name or resource is required"},
		"ApprovalsMode": {reason: "there are three", key: keyApprovals,
			value: `[{"kind":"X","name":"a"},{"kind":"X","name":"a","mode":"Once"}]`, want: "entry 1: mode must be once, generation or always"},
		"ApprovalsRelation": {reason: "there are two", key: keyApprovals, value: `[{"kind":"X","name":"a","relation":"Sibling"}]`,
			want: "relation must be"},
		"ApprovalsWrongType": {reason: "a generation is a number", key: keyApprovals,
			value: `[{"kind":"X","name":"a","generation":"x"}]`, want: "cannot unmarshal"},
		"ApproveOnce":  {reason: "valid", key: keyApprove + "0123", value: "once"},
		"ApproveSpace": {reason: "YAML block scalars end in a newline", key: keyApprove + "0123", value: "always\n"},
		"ApproveOther": {reason: "no mode", key: keyApprove + "0123", value: "true", want: "mode must be"},
		"Rejections":   {reason: "valid", key: keyRejections, value: `[{"kind":"*","name":"*","reason":"r"}]`},
		"RejectionsReason": {reason: "users need the reason", key: keyRejections, value: `[{"kind":"*","name":"*"}]`,
			want: "reason is required"},
		"RejectionsName":   {reason: "of what?", key: keyRejections, value: `[{"kind":"X","reason":"r"}]`, want: "are required"},
		"RejectionsSyntax": {reason: "no JSON and no YAML", key: keyRejections, value: "{", want: "did not find"},
		"Freeze":           {reason: "valid", key: keyFreeze, value: `{"user":"a"}`},
		"FreezeTrue":       {reason: "legacy", key: keyFreeze, value: "true"},
		"FreezeFalse":      {reason: "legacy", key: keyFreeze, value: "false"},
		"FreezeWord": {reason: "a bare word is no object", key: keyFreeze, value: "yesplease",
			want: "must be a JSON or YAML object"},
		"FreezeTime":     {reason: "times are RFC 3339", key: keyFreeze, value: `{"at":"noon"}`, want: "parsing time"},
		"Snooze":         {reason: "valid", key: keySnooze, value: `{"expiry":"2026-01-01T00:00:00Z"}`},
		"SnoozeNoExpiry": {reason: "for ever is not a time", key: keySnooze, value: `{"user":"a"}`, want: "expiry is required"},
		"SnoozeLegacyBad": {reason: "the legacy name is checked as well", key: v1alpha1.AnnotationKeyLegacySnooze, value: "soon",
			want: "must be a JSON or YAML object"},
		"Mode": {reason: "valid", key: v1alpha1.AnnotationKeyMode, value: "log"},
		"ModeOther": {reason: "there are two", key: v1alpha1.AnnotationKeyMode, value: "Enforce",
			want: `must be "log" or "enforce"`},
		"Deletion":             {reason: "valid", key: v1alpha1.AnnotationKeyDeletion, value: "orphan"},
		"DeletionOther":        {reason: "there is one", key: v1alpha1.AnnotationKeyDeletion, value: "delete", want: `must be "orphan"`},
		"ExpiryOfApproval":     {reason: "KR-14-30: valid", key: keyApprovals, value: `[{"kind":"X","name":"a","expiry":"2026-01-01T00:00:00Z"}]`},
		"ExpiryOfApprovalYAML": {reason: "as users write it", key: keyApprovals, value: "- {kind: X, name: a, expiry: 2026-01-01T00:00:00+02:00}"},
		"ExpiryOfApprovalBad": {reason: "KR-14-32: with its path", key: keyApprovals,
			value: `[{"kind":"X","name":"a"},{"kind":"X","name":"b","expiry":"tomorrow"}]`,
			want:  `entry 1: expiry must be a time in RFC 3339, as in 2026-01-31T18:00:00Z, not "tomorrow"`},
		"ExpiryOfApprovalNumber": {reason: "KR-14-32: no number", key: keyApprovals, value: `[{"kind":"X","name":"a","expiry":7}]`,
			want: "entry 0: expiry must be a time in RFC 3339, as in 2026-01-31T18:00:00Z, not 7"},
		"ExpiryOfFreeze":    {reason: "KR-14-31: valid", key: keyFreeze, value: `{"expiry":"2026-01-01T00:00:00Z"}`},
		"ExpiryOfFreezeBad": {reason: "KR-14-32", key: keyFreeze, value: `{"expiry":"2h"}`, want: `expiry must be a time in RFC 3339`},
		"ExpiryOfSnoozeBad": {reason: "KR-14-32", key: keySnooze, value: `{"expiry":"2h"}`, want: `expiry must be a time in RFC 3339`},
		"Label":             {reason: "labels are free", key: "kausality.io/trace-ticket", value: "{["},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Validate(tc.key, tc.value); err != nil {
				got = err.Error()
			}
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
			if strings.Contains(got, "\n") {
				t.Errorf("%s: an error is on one line: %q", tc.reason, got)
			}
		})
	}
}

// TestContent: which entries are the same approval (KR-05-35).
func TestContent(t *testing.T) {
	hash := func(value string) string {
		s := Parse(annotations{keyApprovals: value})
		if len(s.Approvals) != 1 {
			t.Fatalf("%s: %v", value, s.Warnings)
		}
		return s.Approvals[0].Content
	}
	base := hash(`[{"kind":"X","name":"a"}]`)
	for _, same := range []string{`[{"name":"a","kind":"X"}]`, "- kind: X\n  name: a\n  mode: once",
		`[{"kind":"X","name":"a","relation":"ControllerChild","mode":"once"}]`} {
		if hash(same) != base {
			t.Errorf("the same approval in other words: %s", same)
		}
	}
	for _, other := range []string{`[{"kind":"X","name":"b"}]`, `[{"kind":"X","name":"a","generation":1}]`,
		`[{"kind":"X","name":"a","mode":"always"}]`, `[{"kind":"X","name":"a","digest":"d"}]`, `[{"kind":"X","name":"a","ticket":"T-1"}]`} {
		if hash(other) == base {
			t.Errorf("another approval: %s", other)
		}
	}
	one, two := hash(`[{"kind":"X","name":"a","ticket":"T-1","by":"a"}]`), hash("- {by: a, ticket: T-2, kind: X, name: a}")
	if one == two || one != hash("- {by: a, ticket: T-1, kind: X, name: a, mode: once}") {
		t.Errorf("another ticket: %s and %s", one, two)
	}
}

// TestContentOfReason is that of an unknown field, as which earlier releases hashed it: a
// used approval with a reason is no new one after an upgrade (KR-12-23).
func TestContentOfReason(t *testing.T) {
	value := `[{"digest":"1f2e3d4c5b6a7980","mode":"once","reason":"SHOP-17","ticket":"4"}]`
	e := Parse(annotations{v1alpha1.AnnotationKeyApprovals: value}).Approvals
	if len(e) != 1 || e[0].Reason != "SHOP-17" {
		t.Fatalf("parsed as %+v", e)
	}
	plain := v1alpha1.Approval{Digest: "1f2e3d4c5b6a7980", Mode: v1alpha1.ApprovalOnce, Relation: v1alpha1.RelationControllerChild}
	before := annotation.Digest([]any{plain, map[string]any{"reason": "SHOP-17", "ticket": "4"}}, contentLength)
	if e[0].Content != before {
		t.Errorf("its content is %s, before %s", e[0].Content, before)
	}
	if other := content(plain, nil); other == before || content(plain, map[string]any{}) != other {
		t.Errorf("without a reason it is %s", other)
	}
}

// TestReasonOfClaim is kept, bounded, from the arrival of the approval on (KR-12-23).
func TestReasonOfClaim(t *testing.T) {
	e := entry(t, `[{"digest":"1f2e3d4c5b6a7980","reason":"`+strings.Repeat("ü", 200)+`"}]`)
	arrived := arrival(e, 1, 1, time.Now())
	if n := len(arrived.Reason); n > v1alpha1.MaxCauseName || n < v1alpha1.MaxCauseName-2 {
		t.Errorf("the reason has %d bytes", n)
	}
	if _, taken := (Claims{arrived}).Take(Match{Entry: e}, use(), time.Now()); taken.Reason != arrived.Reason {
		t.Errorf("used, the reason is %q", taken.Reason)
	}
}

func seed(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		"", "true", "false", "once", "[]", "{}", "null", "[null]", "2026-01-01T00:00:00Z",
		`[{"kind":"X","name":"a","mode":"once","generation":3}]`, "- kind: '*'\n  name: '*'\n  reason: r\n",
		`{"expiry":"2026-01-01T00:00:00Z"}`, `{"user":"a","at":"2026-01-01T00:00:00Z"}`,
		`[{"content":"c","state":"open","at":null}]`, "&a [*a]", "? []\n: x",
	} {
		f.Add(s)
	}
}

// Whatever the annotation holds, nothing panics, what Validate lets through is read
// without a warning, and what it does not let through is named.
func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, value string) {
		for _, key := range []string{keyApprovals, keyApprove + "x", keyRejections, keyFreeze, keySnooze} {
			in := annotations{key: value}
			s := Parse(in)
			valid := Validate(key, value) == nil
			if valid != (len(s.Warnings) == 0) {
				t.Errorf("%s: valid %t, warnings %v", key, valid, s.Warnings)
			}
			if !valid && (key == keyFreeze) != (s.Freeze != nil) {
				t.Errorf("%s does not fall to the safe side", key)
			}
			if !valid && (key == keyRejections) != (len(s.Rejections) == 1) {
				t.Errorf("%s does not fall to the safe side", key)
			}
			edits := Remove(in, func(Entry) bool { return false })
			if len(edits) > 0 {
				t.Errorf("removing nothing edits %v", edits)
			}
		}
	})
}

func FuzzParseClaims(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, value string) {
		c := ParseClaims(value)
		if diff := cmp.Diff(c, ParseClaims(c.String()), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("does not survive its own form:\n%s", diff)
		}
	})
}

// A large value of any user annotation is refused before it is decoded (KR-13-06).
func TestValidateSize(t *testing.T) {
	large := strings.Repeat("x", annotation.MaxUser+1)
	for _, key := range []string{
		v1alpha1.AnnotationKeyApprovals, v1alpha1.AnnotationKeyRejections, v1alpha1.AnnotationKeyFreeze, v1alpha1.AnnotationKeySnooze,
		v1alpha1.AnnotationKeyTraceLabelPrefix + "ticket", v1alpha1.AnnotationKeyApprovePrefix + "0123456789abcdef",
	} {
		if err := Validate(key, large); err == nil || !strings.Contains(err.Error(), "too large") || len(err.Error()) > 200 {
			t.Errorf("%s: want a short error about the size, got %v", key, err)
		}
	}
}
