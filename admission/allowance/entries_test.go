package allowance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var pods = schema.GroupKind{Kind: "Pod"}

func mutated(paths ...string) []change.Detail {
	old, new := map[string]any{}, map[string]any{}
	for _, p := range paths {
		old[p], new[p] = "a", "b"
	}
	return change.Details(map[string]any{"spec": old}, map[string]any{"spec": new}, nil, false)
}

// TestParseOlderForms: the older forms are understood, and written as
// they were.
func TestParseOlderForms(t *testing.T) {
	for _, tc := range []struct {
		reason, text         string
		create, update, gone bool
	}{
		{reason: "a field", text: `[{"kind":"Pod","mutation":"spec.replicas","generation":7}]`, update: true},
		{reason: "delete", text: `[{"kind":"Pod","mutation":"delete","generation":7}]`, gone: true},
		{reason: "create", text: `[{"kind":"Pod","mutation":"create","generation":7}]`, create: true},
		{reason: "plain strings", text: `[{"kind":"Pod","mutations":["spec.replicas","delete"],"generation":7}]`, update: true,
			gone: true},
		{reason: "YAML", text: "- kind: Pod\n  mutation: spec.replicas\n", update: true},
		{reason: "as we write it",
			text: `[{"apiVersion":"v1","kind":"Pod","relation":"ControllerChild","verbs":["Update"],"mutations":[{"jsonPath":"spec.replicas",` +
				`"verbs":["Mutate"]}],"generation":7}]`,
			update: true},
		{reason: "another kind of change",
			text: `[{"kind":"Pod","verbs":["Update"],"mutations":[{"jsonPath":"spec.replicas","verbs":["Insert"]}]}]`},
		{reason: "every field", text: `[{"kind":"Pod","verbs":["Update"]}]`, update: true},
		{reason: "everything", text: `[{"verbs":["*"]}]`, create: true, update: true, gone: true},
		{reason: "another group", text: `[{"apiVersion":"apps/v1","kind":"Pod","verbs":["*"]}]`},
		{reason: "any version of a group", text: `[{"apiVersion":"v2","kind":"Pod","verbs":["*"]}]`, create: true, update: true,
			gone: true},
		{reason: "External covers no field", text: `[{"relation":"External","mutations":["Update"]}]`},
		{reason: "External Delete covers the object that represents it", text: `[{"relation":"External","verbs":["Delete"]}]`,
			gone: true},
	} {
		e, err := Parse(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.reason, err)
			continue
		}
		got := []bool{len(e.Missing(pods, VerbCreate, nil)) == 0, len(e.Missing(pods, VerbUpdate, mutated("replicas"))) == 0,
			len(e.Missing(pods, VerbDelete, nil)) == 0}
		if d := cmp.Diff([]bool{tc.create, tc.update, tc.gone}, got); d != "" {
			t.Errorf("%s: create, update, delete: %s", tc.reason, d)
		}
		if again, err := Parse(e.String()); err != nil || again.String() != e.String() {
			t.Errorf("%s: %s is written %s, then %v", tc.reason, tc.text, e, again)
		}
	}
	if _, err := Parse(`[{"kind":"Pod","mutation":"spec["}]`); err == nil {
		t.Error("a path that does not parse is understood")
	}
}

// TestUnknownFieldsAreKept covers KR-02-01.
func TestUnknownFieldsAreKept(t *testing.T) {
	const text = `[{"kind":"Pod","mutation":"delete","generation":7,"later":{"a":1}}]`
	e, err := Parse(text)
	if err != nil || e.String() != text {
		t.Errorf("%s, %v", e, err)
	}
}

// TestLive covers KR-06-08.
func TestLive(t *testing.T) {
	e, err := Parse(`[{"verbs":["*"],"generation":5},{"verbs":["*"],"generation":6},{"verbs":["*"]}]`)
	if err != nil {
		t.Fatal(err)
	}
	for settled, want := range map[int64]int{-1: 3, 4: 3, 5: 2, 6: 1, 9: 1} {
		if got := len(e.Live(settled)); got != want {
			t.Errorf("settled at %d: %d live, want %d", settled, got, want)
		}
	}
}

// TestChoice: of several entries that cover, the first by kind, name and field (KR-06-05).
func TestChoice(t *testing.T) {
	text := ""
	for _, h := range [][2]string{{"b", "spec.x"}, {"a", "spec.z"}, {"a", "spec.y"}} {
		text += fmt.Sprintf(`,{"verbs":["*"],"trace":[{"kind":"K","name":%q,"field":%q}]}`, h[0], h[1])
	}
	e, err := Parse("[" + text[1:] + "]")
	if err != nil {
		t.Fatal(err)
	}
	c := e.covering(pods, VerbUpdate, mutated("a"))
	if len(c) != 3 || c[0].own().Name != "a" || c[0].own().Field != "spec.y" {
		t.Errorf("chose %+v", c[0].own())
	}
}

// TestExternalGoesWithItsCause: what one field permits to the cloud does not come
// along with another (KR-06-11).
func TestExternalGoesWithItsCause(t *testing.T) {
	e, err := Parse(`[
{"verbs":["Update"],"mutations":["spec.size"],"generation":7,"trace":[{"kind":"X","field":"spec.size"}]},
{"relation":"External","verbs":["Update"],"generation":7,"trace":[{"kind":"X","field":"spec.size"}]},
{"verbs":["Update"],"mutations":["spec.engine"],"generation":7,"trace":[{"kind":"X","field":"spec.engine"}]},
{"relation":"External","verbs":["Delete","Create"],"generation":7,"trace":[{"kind":"X","field":"spec.engine"}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string][]string{"size": {"Update"}, "engine": {"Delete", "Create"}, "other": nil} {
		if d := cmp.Diff(want, e.External(pods, VerbUpdate, mutated(field)).Verbs(pods)); d != "" {
			t.Errorf("%s: %s", field, d)
		}
	}
}

func TestClaimable(t *testing.T) {
	stale := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	fresh, old := metav1.NewTime(stale.Add(time.Second)), metav1.NewTime(stale.Add(-time.Second))
	named := &v1alpha1.ClaimChild{Kind: "Pod", Name: "p"}
	stored := &v1alpha1.ClaimChild{Kind: "Pod", Name: "p", UID: "u"}
	parent := v1alpha1.ObjectReference{UID: "x"}
	claim := func(rule, id string, child *v1alpha1.ClaimChild, state v1alpha1.ClaimState, at metav1.Time) v1alpha1.PolicyClaim {
		return v1alpha1.PolicyClaim{Rule: rule, ID: id, Child: child, State: state, At: at}
	}
	want := claim("r", "1", stored, "pending", fresh)
	for _, tc := range []struct {
		reason     string
		have       []v1alpha1.PolicyClaim
		want       v1alpha1.PolicyClaim
		free, mine bool
	}{
		{reason: "nothing claimed", want: want, free: true},
		{reason: "the same use, tried again", have: []v1alpha1.PolicyClaim{claim("r", "1", stored, "pending", fresh)}, want: want,
			mine: true},
		{reason: "the same use, so late that its claim may be released",
			have: []v1alpha1.PolicyClaim{claim("r", "1", stored, "pending", old)}, want: want, free: true},
		{reason: "the same use, whose outcome was unknown", have: []v1alpha1.PolicyClaim{claim("r", "1", stored, "used", old)},
			want: want, mine: true},
		{reason: "another use", have: []v1alpha1.PolicyClaim{claim("r", "2", stored, "pending", fresh)}, want: want},
		{reason: "another use, long ago", have: []v1alpha1.PolicyClaim{claim("r", "2", stored, "pending", old)}, want: want},
		{reason: "another use that landed", have: []v1alpha1.PolicyClaim{claim("r", "2", stored, "used", old)}, want: want},
		{reason: "another rule", have: []v1alpha1.PolicyClaim{claim("q", "2", stored, "pending", fresh)}, want: want, free: true},
		{reason: "a creation that is tried again at once", have: []v1alpha1.PolicyClaim{claim("r", "1", named, "pending", fresh)},
			want: claim("r", "1", named, "pending", fresh), mine: true},
		{reason: "and after it landed: the object is gone by now",
			have: []v1alpha1.PolicyClaim{claim("r", "1", named, "used", fresh)}, want: claim("r", "1", named, "pending", fresh)},
		{reason: "as used, by an older version", have: []v1alpha1.PolicyClaim{claim("r", "1", named, "", fresh)},
			want: claim("r", "1", named, "pending", fresh)},
		{reason: "mode generation, same parent and intent",
			have: []v1alpha1.PolicyClaim{{Rule: "r", ID: "1", Parent: parent, At: old}},
			want: v1alpha1.PolicyClaim{Rule: "r", ID: "1", Parent: parent}, mine: true},
		{reason: "same parent, next intent", have: []v1alpha1.PolicyClaim{{Rule: "r", ID: "1", Parent: parent, At: old}},
			want: v1alpha1.PolicyClaim{Rule: "r", ID: "2", Parent: parent}},
		{reason: "another parent", have: []v1alpha1.PolicyClaim{{Rule: "r", ID: "1", Parent: parent, At: old}},
			want: v1alpha1.PolicyClaim{Rule: "r", ID: "2", Parent: v1alpha1.ObjectReference{UID: "y"}}, free: true},
		{reason: "too many", have: make([]v1alpha1.PolicyClaim, MaxPolicyClaims), want: want},
	} {
		free, mine := Claimable(tc.have, tc.want, stale)
		if free != tc.free || (mine != nil) != tc.mine {
			t.Errorf("%s: free %v, mine %v", tc.reason, free, mine)
		}
	}
}

// TestFinishedClaims: what is known to have landed is used, what is known not to
// have landed is gone, and what was claimed again meanwhile is as it was.
func TestFinishedClaims(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	claim := func(id string, state v1alpha1.ClaimState, at metav1.Time) v1alpha1.PolicyClaim {
		return v1alpha1.PolicyClaim{Rule: "r" + id, ID: id, State: state, At: at}
	}
	landing := func(id string, state v1alpha1.ClaimState) Landing {
		return Landing{Claim: claim(id, "pending", at), State: state}
	}
	have := []v1alpha1.PolicyClaim{
		claim("landed", "pending", at), claim("lost", "pending", at), claim("renewed", "pending", metav1.NewTime(at.Add(time.Second))),
		claim("unknown", "pending", at), claim("done", "used", at), {Rule: "r", ID: "generation", At: at},
	}
	before := slices.Clone(have)
	got := Finished(have, []Landing{landing("landed", "used"), landing("lost", "open"), landing("renewed", "open"),
		landing("done", "open"), landing("gone", "used")})
	want := []v1alpha1.PolicyClaim{
		claim("landed", "used", at), claim("renewed", "pending", metav1.NewTime(at.Add(time.Second))),
		claim("unknown", "pending", at), claim("done", "used", at), {Rule: "r", ID: "generation", At: at},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before, have); d != "" {
		t.Errorf("the claims were modified: %s", d)
	}
	if d := cmp.Diff(got, Claimed(got[1:], got[0]), cmp.Transformer("sorted", byID)); d != "" {
		t.Error(d)
	}
	renewed := claim("renewed", "pending", metav1.NewTime(at.Add(time.Minute)))
	if got := Claimed(got, renewed); len(got) != len(want) || !got[1].At.Equal(&renewed.At) {
		t.Errorf("a claim that is taken again replaces itself: %v", got)
	}
}

func byID(in []v1alpha1.PolicyClaim) []v1alpha1.PolicyClaim {
	return slices.SortedFunc(slices.Values(in), func(a, b v1alpha1.PolicyClaim) int { return strings.Compare(a.ID, b.ID) })
}

func FuzzParseAllowances(f *testing.F) {
	for _, text := range []string{"", "[]", "null", "- kind: Pod\n  mutation: delete", `[{"mutations":["a",{"jsonPath":"b"}]}]`,
		`[{"apiVersion":"a/b/c"}]`, `[{"trace":[{}]}]`, "[1]", "{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		once := e.String()
		again, err := Parse(once)
		if err != nil || again.String() != once {
			t.Errorf("%q is written %q, then %q, %v", text, once, again, err)
		}
	})
}
