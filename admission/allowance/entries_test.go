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
		{"a field", `[{"kind":"Pod","mutation":"spec.replicas","generation":7}]`, false, true, false},
		{"delete", `[{"kind":"Pod","mutation":"delete","generation":7}]`, false, false, true},
		{"create", `[{"kind":"Pod","mutation":"create","generation":7}]`, true, false, false},
		{"plain strings", `[{"kind":"Pod","mutations":["spec.replicas","delete"],"generation":7}]`, false, true, true},
		{"YAML", "- kind: Pod\n  mutation: spec.replicas\n", false, true, false},
		{"as we write it", `[{"apiVersion":"v1","kind":"Pod","relation":"ControllerChild","verbs":["Update"],"mutations":[{"jsonPath":"spec.replicas","verbs":["Mutate"]}],"generation":7}]`, false, true, false},
		{"another kind of change", `[{"kind":"Pod","verbs":["Update"],"mutations":[{"jsonPath":"spec.replicas","verbs":["Insert"]}]}]`, false, false, false},
		{"every field", `[{"kind":"Pod","verbs":["Update"]}]`, false, true, false},
		{"everything", `[{"verbs":["*"]}]`, true, true, true},
		{"another group", `[{"apiVersion":"apps/v1","kind":"Pod","verbs":["*"]}]`, false, false, false},
		{"any version of a group", `[{"apiVersion":"v2","kind":"Pod","verbs":["*"]}]`, true, true, true},
		{"External covers no field", `[{"relation":"External","mutations":["Update"]}]`, false, false, false},
		{"External Delete covers the object that stands for it", `[{"relation":"External","verbs":["Delete"]}]`, false, false, true},
	} {
		e, err := Parse(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.reason, err)
			continue
		}
		got := []bool{len(e.Missing(pods, VerbCreate, nil)) == 0, len(e.Missing(pods, VerbUpdate, mutated("replicas"))) == 0, len(e.Missing(pods, VerbDelete, nil)) == 0}
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

func TestUnknownFieldsAreKept(t *testing.T) {
	const text = `[{"kind":"Pod","mutation":"delete","generation":7,"later":{"a":1}}]`
	e, err := Parse(text)
	if err != nil || e.String() != text {
		t.Errorf("%s, %v", e, err)
	}
}

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

// TestChoice: of several entries that cover, the first by kind, name and field.
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
// along with another.
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
		if d := cmp.Diff(want, e.External(pods, VerbUpdate, mutated(field)).Verbs()); d != "" {
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
		{"nothing claimed", nil, want, true, false},
		{"the same use, tried again", []v1alpha1.PolicyClaim{claim("r", "1", stored, "pending", fresh)}, want, false, true},
		{"the same use, so late that its claim may be released", []v1alpha1.PolicyClaim{claim("r", "1", stored, "pending", old)}, want, true, false},
		{"the same use, whose outcome was unknown", []v1alpha1.PolicyClaim{claim("r", "1", stored, "used", old)}, want, false, true},
		{"another use", []v1alpha1.PolicyClaim{claim("r", "2", stored, "pending", fresh)}, want, false, false},
		{"another use, long ago", []v1alpha1.PolicyClaim{claim("r", "2", stored, "pending", old)}, want, false, false},
		{"another use that landed", []v1alpha1.PolicyClaim{claim("r", "2", stored, "used", old)}, want, false, false},
		{"another rule", []v1alpha1.PolicyClaim{claim("q", "2", stored, "pending", fresh)}, want, true, false},
		{"a creation that is tried again at once", []v1alpha1.PolicyClaim{claim("r", "1", named, "pending", fresh)}, claim("r", "1", named, "pending", fresh), false, true},
		{"and after it landed: the object is gone by now", []v1alpha1.PolicyClaim{claim("r", "1", named, "used", fresh)}, claim("r", "1", named, "pending", fresh), false, false},
		{"as used, by an older version", []v1alpha1.PolicyClaim{claim("r", "1", named, "", fresh)}, claim("r", "1", named, "pending", fresh), false, false},
		{"mode generation, same parent and intent", []v1alpha1.PolicyClaim{{Rule: "r", ID: "1", Parent: parent, At: old}}, v1alpha1.PolicyClaim{Rule: "r", ID: "1", Parent: parent}, false, true},
		{"same parent, next intent", []v1alpha1.PolicyClaim{{Rule: "r", ID: "1", Parent: parent, At: old}}, v1alpha1.PolicyClaim{Rule: "r", ID: "2", Parent: parent}, false, false},
		{"another parent", []v1alpha1.PolicyClaim{{Rule: "r", ID: "1", Parent: parent, At: old}}, v1alpha1.PolicyClaim{Rule: "r", ID: "2", Parent: v1alpha1.ObjectReference{UID: "y"}}, true, false},
		{"too many", make([]v1alpha1.PolicyClaim, MaxPolicyClaims), want, false, false},
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
	got := Finished(have, []Landing{landing("landed", "used"), landing("lost", "open"), landing("renewed", "open"), landing("done", "open"), landing("gone", "used")})
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
	for _, text := range []string{"", "[]", "null", "- kind: Pod\n  mutation: delete", `[{"mutations":["a",{"jsonPath":"b"}]}]`, `[{"apiVersion":"a/b/c"}]`, `[{"trace":[{}]}]`, "[1]", "{"} {
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
