package approval

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func TestParse(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	deployment := v1alpha1.Approval{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Generation: 3,
		Mode: v1alpha1.ApprovalGeneration, Relation: v1alpha1.RelationControllerChild}
	once := v1alpha1.Approval{Kind: "X", Name: "a", Mode: v1alpha1.ApprovalOnce, Relation: v1alpha1.RelationControllerChild}

	cases := map[string]struct {
		reason string
		in     annotations
		want   Set
	}{
		"Nothing":       {"no annotations, no decisions", nil, Set{}},
		"JSON":          {"as tools write it", annotations{keyApprovals: `[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","generation":3,"mode":"generation"}]`}, Set{Approvals: []Entry{{Approval: deployment, Key: keyApprovals}}}},
		"YAML":          {"as users write it", annotations{keyApprovals: "- apiVersion: apps/v1\n  kind: Deployment\n  name: web\n  generation: 3\n  mode: generation\n"}, Set{Approvals: []Entry{{Approval: deployment, Key: keyApprovals}}}},
		"Defaults":      {"mode once, relation child", annotations{keyApprovals: `[{"kind":"X","name":"a"}]`}, Set{Approvals: []Entry{{Approval: once, Key: keyApprovals}}}},
		"UnknownFields": {"kept and not minded", annotations{keyApprovals: `[{"kind":"X","name":"a","ticket":"OPS-1"}]`}, Set{Approvals: []Entry{{Approval: once, Key: keyApprovals}}}},
		"ApproveID":     {"one difference in one annotation", annotations{keyApprove + "0123456789abcdef": "always"}, Set{Approvals: []Entry{{Approval: v1alpha1.Approval{Mode: v1alpha1.ApprovalAlways, Digest: "0123456789abcdef"}, Key: keyApprove + "0123456789abcdef"}}}},
		"EmptyList":     {"no entries", annotations{keyApprovals: `[]`, keyRejections: `[]`}, Set{}},
		"BadApproval":   {"counts as absent, with a warning", annotations{keyApprovals: `{`}, Set{Warnings: []string{keyApprovals}}},
		"BadMode":       {"counts as absent, with a warning", annotations{keyApprovals: `[{"kind":"X","name":"a","mode":"twice"}]`}, Set{Warnings: []string{keyApprovals}}},
		"BadApproveID":  {"counts as absent, with a warning", annotations{keyApprove + "x": "yes"}, Set{Warnings: []string{keyApprove + "x"}}},
		"OneBadOfMany":  {"another annotation is not touched by it", annotations{keyApprove + "x": "yes", keyApprove + "y": "once"}, Set{Approvals: []Entry{{Approval: v1alpha1.Approval{Mode: v1alpha1.ApprovalOnce, Digest: "y"}, Key: keyApprove + "y"}}, Warnings: []string{keyApprove + "x"}}},
		"Rejection":     {"with a reason", annotations{keyRejections: `[{"kind":"X","name":"a","reason":"no"}]`}, Set{Rejections: []v1alpha1.Rejection{{Kind: "X", Name: "a", Reason: "no"}}}},
		"RejectionYAML": {"as users write it", annotations{keyRejections: "- kind: X\n  name: '*'\n  generation: 4\n  reason: no\n"}, Set{Rejections: []v1alpha1.Rejection{{Kind: "X", Name: "*", Generation: 4}}}},
		"BadRejection":  {"counts as present: everything is rejected", annotations{keyRejections: `[{"kind":`}, Set{Rejections: []v1alpha1.Rejection{{APIVersion: "*", Kind: "*", Name: "*"}}, Warnings: []string{keyRejections}}},
		"Freeze":        {"who, why, when", annotations{keyFreeze: `{"user":"alice","message":"audit","at":"2026-01-01T00:00:00Z"}`}, Set{Freeze: &v1alpha1.Freeze{User: "alice", Message: "audit", At: &at}}},
		"FreezeYAML":    {"as users write it", annotations{keyFreeze: "user: alice\nmessage: audit"}, Set{Freeze: &v1alpha1.Freeze{User: "alice", Message: "audit"}}},
		"FreezeLegacy":  {"the legacy form", annotations{keyFreeze: "true"}, Set{Freeze: &v1alpha1.Freeze{}}},
		"FreezeFalse":   {"not frozen", annotations{keyFreeze: "false"}, Set{}},
		"BadFreeze":     {"counts as frozen", annotations{keyFreeze: "until monday"}, Set{Freeze: &v1alpha1.Freeze{}, Warnings: []string{keyFreeze}}},
		"EmptyFreeze":   {"counts as frozen: a user meant something by it", annotations{keyFreeze: ""}, Set{Freeze: &v1alpha1.Freeze{}, Warnings: []string{keyFreeze}}},
		"BadFreezeTime": {"counts as frozen", annotations{keyFreeze: `{"at":"noon"}`}, Set{Freeze: &v1alpha1.Freeze{}, Warnings: []string{keyFreeze}}},
		"Snooze":        {"until when, who, why", annotations{keySnooze: `{"expiry":"2026-01-01T00:00:00Z","user":"bob","message":"m"}`}, Set{Snooze: &v1alpha1.Snooze{Expiry: at, User: "bob", Message: "m"}}},
		"SnoozeTime":    {"the legacy value", annotations{keySnooze: "2026-01-01T00:00:00Z"}, Set{Snooze: &v1alpha1.Snooze{Expiry: at}}},
		"SnoozeLegacy":  {"the legacy name", annotations{v1alpha1.AnnotationKeyLegacySnooze: "2026-01-01T00:00:00Z"}, Set{Snooze: &v1alpha1.Snooze{Expiry: at}}},
		"SnoozeBoth":    {"the later of two", annotations{keySnooze: "2025-01-01T00:00:00Z", v1alpha1.AnnotationKeyLegacySnooze: "2026-01-01T00:00:00Z"}, Set{Snooze: &v1alpha1.Snooze{Expiry: at}}},
		"BadSnooze":     {"counts as absent: rather a notification too many", annotations{keySnooze: "tomorrow"}, Set{Warnings: []string{keySnooze}}},
		"Claims":        {"what became of approvals", annotations{keyClaims: `[{"content":"c","state":"used","at":"2026-01-01T00:00:00Z"}]`}, Set{Claims: Claims{{Content: "c", State: v1alpha1.ClaimUsed, At: at}}}},
		"BadClaims":     {"only we write them", annotations{keyClaims: `{`}, Set{}},
		"Foreign":       {"other annotations are not read", annotations{"example.org/freeze": "true", "kausality.io/trace": "["}, Set{}},
	}
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

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		reason     string
		key, value string
		want       string
	}{
		"Approvals":          {"valid", keyApprovals, `[{"kind":"X","name":"a"}]`, ""},
		"ApprovalsResource":  {"the composition resource name will do", keyApprovals, `[{"kind":"X","resource":"db"}]`, ""},
		"ApprovalsDigest":    {"a digest suffices", keyApprovals, `[{"digest":"0123"}]`, ""},
		"ApprovalsExternal":  {"external work", keyApprovals, `[{"kind":"X","name":"a","relation":"External","verbs":["Delete"]}]`, ""},
		"ApprovalsSyntax":    {"no JSON and no YAML", keyApprovals, "[{", "did not find"},
		"ApprovalsNotAList":  {"an object is no list", keyApprovals, `{"kind":"X"}`, "cannot unmarshal"},
		"ApprovalsNoKind":    {"a slip must not match everything", keyApprovals, `[{"name":"a"}]`, "kind is required"},
		"ApprovalsNoName":    {"a slip must not match everything", keyApprovals, `[{"kind":"X"}]`, "name or resource is required"},
		"ApprovalsMode":      {"there are three", keyApprovals, `[{"kind":"X","name":"a"},{"kind":"X","name":"a","mode":"Once"}]`, "entry 1: mode must be once, generation or always"},
		"ApprovalsRelation":  {"there are two", keyApprovals, `[{"kind":"X","name":"a","relation":"Sibling"}]`, "relation must be"},
		"ApprovalsWrongType": {"a generation is a number", keyApprovals, `[{"kind":"X","name":"a","generation":"x"}]`, "cannot unmarshal"},
		"ApproveOnce":        {"valid", keyApprove + "0123", "once", ""},
		"ApproveSpace":       {"YAML block scalars end in a newline", keyApprove + "0123", "always\n", ""},
		"ApproveOther":       {"no mode", keyApprove + "0123", "true", "mode must be"},
		"Rejections":         {"valid", keyRejections, `[{"kind":"*","name":"*","reason":"r"}]`, ""},
		"RejectionsReason":   {"users need the reason", keyRejections, `[{"kind":"*","name":"*"}]`, "reason is required"},
		"RejectionsName":     {"of what?", keyRejections, `[{"kind":"X","reason":"r"}]`, "are required"},
		"RejectionsSyntax":   {"no JSON and no YAML", keyRejections, "{", "did not find"},
		"Freeze":             {"valid", keyFreeze, `{"user":"a"}`, ""},
		"FreezeTrue":         {"legacy", keyFreeze, "true", ""},
		"FreezeFalse":        {"legacy", keyFreeze, "false", ""},
		"FreezeWord":         {"a bare word is no object", keyFreeze, "yesplease", "must be a JSON or YAML object"},
		"FreezeTime":         {"times are RFC 3339", keyFreeze, `{"at":"noon"}`, "parsing time"},
		"Snooze":             {"valid", keySnooze, `{"expiry":"2026-01-01T00:00:00Z"}`, ""},
		"SnoozeNoExpiry":     {"for ever is not a time", keySnooze, `{"user":"a"}`, "expiry is required"},
		"SnoozeLegacyBad":    {"the legacy name is checked as well", v1alpha1.AnnotationKeyLegacySnooze, "soon", "must be a JSON or YAML object"},
		"Mode":               {"valid", v1alpha1.AnnotationKeyMode, "log", ""},
		"ModeOther":          {"there are two", v1alpha1.AnnotationKeyMode, "Enforce", `must be "log" or "enforce"`},
		"Deletion":           {"valid", v1alpha1.AnnotationKeyDeletion, "orphan", ""},
		"DeletionOther":      {"there is one", v1alpha1.AnnotationKeyDeletion, "delete", `must be "orphan"`},
		"Label":              {"labels are free", "kausality.io/trace-ticket", "{[", ""},
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

func TestContent(t *testing.T) {
	hash := func(value string) string {
		s := Parse(annotations{keyApprovals: value})
		if len(s.Approvals) != 1 {
			t.Fatalf("%s: %v", value, s.Warnings)
		}
		return s.Approvals[0].Content
	}
	base := hash(`[{"kind":"X","name":"a"}]`)
	for _, same := range []string{`[{"name":"a","kind":"X"}]`, "- kind: X\n  name: a\n  mode: once", `[{"kind":"X","name":"a","relation":"ControllerChild","mode":"once"}]`} {
		if hash(same) != base {
			t.Errorf("the same approval in other words: %s", same)
		}
	}
	for _, other := range []string{`[{"kind":"X","name":"b"}]`, `[{"kind":"X","name":"a","generation":1}]`, `[{"kind":"X","name":"a","mode":"always"}]`, `[{"kind":"X","name":"a","digest":"d"}]`} {
		if hash(other) == base {
			t.Errorf("another approval: %s", other)
		}
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
