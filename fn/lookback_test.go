package fn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// two rules: a size may grow, a tier may be anything.
const growing = `{"mode":"enforce","settleGrace":"10s","policies":[{"name":"sizes",
  "target":{"apiGroup":"example.org","kind":"XDatabase"},
  "subjects":[{"kind":"User","name":"hans@example.com","mayInitiate":true}],
  "rules":[
    {"trigger":"spec.size","conditions":["object.spec.size > oldObject.spec.size"],"allow":[
      {"target":{"apiGroup":"cloud.example.org","kind":"Database"},"relation":"ControllerChild","verbs":["Update"],
       "mutations":[{"jsonPath":"spec.forProvider.size"}]}]},
    {"trigger":"spec.tiers[*].name","allow":[
      {"target":{"apiGroup":"cloud.example.org","kind":"Database"},"relation":"ControllerChild","verbs":["Update"],
       "mutations":[{"jsonPath":"spec.forProvider.tier"}]}]},
    {"trigger":"spec.backup","allow":[
      {"target":{"apiGroup":"app.example.org","kind":"Thing"},"relation":"ControllerChild","verbs":["Update"],"mutations":[{"jsonPath":"spec.value"}]}]}]}]}`

// change a field of the composite, as an intent; nil removes it.
func (s *stage) change(field string, value any) {
	s.now = s.now.Add(time.Minute)
	spec := ssa.Child(s.xr.Object, "spec")
	if spec[field] = value; value == nil {
		delete(spec, field)
	}
	s.xr.SetGeneration(s.xr.GetGeneration() + 1)
	s.person("kubectl-edit", "f:spec", "f:"+field)
}

func tiers(name string) []any { return []any{map[string]any{"name": name}} }

// grown stage: settled at size 5, tier a, with a backup.
func grown(t *testing.T, input string) (*stage, desire) {
	t.Helper()
	s := newStage(t, input)
	spec := ssa.Child(s.xr.Object, "spec")
	spec["size"], spec["tiers"], spec["backup"] = int64(5), tiers("a"), map[string]any{"days": int64(7)}
	want := desire{"a": database(5, "tier", "a"), "b": plain("x")}
	s.reconcile(want)
	s.settle(want)
	return s, want
}

// An intent is granted what the fields allow that it changed, and no others: the
// function remembers what the policies look at.
func TestChangedFields(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(s *stage)
		want   func(w desire)
		writes []string
	}{
		"Grown": {reason: "a condition compares with the value before", change: func(s *stage) { s.change("size", int64(6)) },
			want: func(w desire) { w["a"] = database(6, "tier", "a") }, writes: []string{"update a"}},
		"Shrunk": {reason: "and is false", change: func(s *stage) { s.change("size", int64(4)) },
			want: func(w desire) { w["a"] = database(4, "tier", "a") }, writes: []string{"hold a"}},
		"OtherField": {reason: "a field that is set, and was not changed, triggers nothing",
			change: func(s *stage) { s.change("size", int64(6)) }, want: func(w desire) { w["a"] = database(6, "tier", "b") }, writes: []string{"hold a"}},
		"Item": {reason: "in a list", change: func(s *stage) { s.change("tiers", tiers("b")) },
			want: func(w desire) { w["a"] = database(5, "tier", "b") }, writes: []string{"update a"}},
		"Removed": {reason: "a field that was removed is a change", change: func(s *stage) { s.change("backup", nil) },
			want: func(w desire) { w["b"] = plain("none") }, writes: []string{"annotate a", "update b"}},
		"Nothing": {reason: "an intent on a field that no policy looks at", change: func(s *stage) { s.change("note", "x") },
			want: func(w desire) { w["b"] = plain("none") }, writes: []string{"hold b"}},
		"Forgotten": {reason: "where nothing is remembered, each field that is set counts", change: func(s *stage) {
			a := ssa.Child(ssa.Child(s.live["a"].Object, "metadata"), "annotations")
			delete(a, v1alpha1.AnnotationKeySettledFields)
			s.change("note", "x")
		}, want: func(w desire) { w["a"] = database(5, "tier", "b") }, writes: []string{"update a"}},
		"Garbage": {reason: "nor of what does not parse", change: func(s *stage) {
			ssa.Child(ssa.Child(s.live["a"].Object, "metadata"), "annotations")[v1alpha1.AnnotationKeySettledFields] = `[{"at":7}]`
			s.change("note", "x")
		}, want: func(w desire) { w["a"] = database(5, "tier", "b") }, writes: []string{"update a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, want := grown(t, growing)
			tc.change(s)
			tc.want(want)
			s.reconcile(want)
			if d := cmp.Diff(tc.writes, s.writes); d != "" {
				_, _, message := s.condition()
				t.Errorf("%s: -want +got\n%s\n%s", tc.reason, d, message)
			}
			s.stable(want)
		})
	}
}

// Until the intent settles, a field that came back to what it was counts still:
// the resources may have followed it.
func TestChangedBack(t *testing.T) {
	s, want := grown(t, growing)
	s.change("tiers", tiers("b"))
	want["a"] = database(5, "tier", "b")
	s.reconcile(want)
	s.wantWrites("update a")
	s.change("tiers", tiers("a"))
	want["a"] = database(5, "tier", "a")
	s.reconcile(want)
	s.wantWrites("update a")
	s.stable(want)
	s.settle(want)
	s.change("note", "x")
	want["a"] = database(5, "tier", "b")
	s.reconcile(want)
	s.wantWrites("hold a")
}

// One resource stores the fields, and another where that is deleted; fields that no
// policy selects are not stored, nor is anything above the size limit (KR-09-10).
func TestRemembers(t *testing.T) {
	s, want := grown(t, growing)
	remembers := func() (out []string) {
		for _, name := range slices.Sorted(maps.Keys(s.live)) {
			if v := s.live[name].GetAnnotations()[v1alpha1.AnnotationKeySettledFields]; v != "" {
				out = append(out, name+" "+v)
			}
		}
		return out
	}
	all := `[{"at":["spec","backup"],"was":{"days":7}},{"at":["spec","size"],"was":5},{"at":["spec","tiers"],"was":[{"name":"a"}]}]`
	if d := cmp.Diff([]string{"a " + all}, remembers()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	delete(s.live, "a")
	s.reconcile(want)
	if d := cmp.Diff([]string{"b " + all}, remembers()); d != "" {
		t.Errorf("without a: -want +got\n%s", d)
	}
	s.annotate(s.suggested()[0], "once")
	s.reconcile(want)
	s.reconcile(want)
	if d := cmp.Diff([]string{"a " + all}, remembers()); d != "" {
		t.Errorf("with another a: -want +got\n%s", d)
	}
	s.stable(want)
	ssa.Child(s.xr.Object, "spec")["backup"] = strings.Repeat("x", offline.MaxLookback)
	s.reconcile(want)
	if got := remembers(); len(got) != 0 {
		t.Errorf("more than fits: %d bytes", len(got[0]))
	}
	s.input = enforce
	s.stable(want)
}

// Where the user of an intent is known, only a subject is granted anything; the members
// of a group are unknown, so that a policy for one grants.
func TestKnownSubjects(t *testing.T) {
	hop := func(s *stage, user string) {
		s.annotate(v1alpha1.AnnotationKeyTrace,
			fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":%d,"user":%q,"timestamp":%q}]`,
				s.xr.GetGeneration(), user, s.now.Format(time.RFC3339)))
	}
	settled := func(s *stage) {
		s.annotate(v1alpha1.AnnotationKeyPhase, "initialized")
		s.annotate(v1alpha1.AnnotationKeySettledGeneration, fmt.Sprint(s.xr.GetGeneration()))
	}
	cases := map[string]struct {
		user, subjects string
		writes         []string
	}{
		"Subject": {user: "hans@example.com", subjects: `{"kind":"User","name":"hans@example.com","mayInitiate":true}`,
			writes: []string{"update a"}},
		"Other": {user: "alice@example.com", subjects: `{"kind":"User","name":"hans@example.com","mayInitiate":true}`,
			writes: []string{"hold a"}},
		"MayNotStart": {user: "hans@example.com", subjects: `{"kind":"User","name":"hans@example.com"}`, writes: []string{"hold a"}},
		"AnyGroup": {user: "alice@example.com", subjects: `{"kind":"Group","name":"platform","mayInitiate":true}`,
			writes: []string{"update a"}},
		"Account": {user: "system:serviceaccount:ci:deploy",
			subjects: `{"kind":"ServiceAccount","namespace":"ci","name":"deploy","mayInitiate":true}`, writes: []string{"update a"}},
		"AccountsGroup": {user: "system:serviceaccount:ci:deploy",
			subjects: `{"kind":"Group","name":"system:serviceaccounts:ci","mayInitiate":true}`, writes: []string{"update a"}},
		"NotItsGroup": {user: "system:serviceaccount:ci:deploy", subjects: `{"kind":"Group","name":"platform","mayInitiate":true}`,
			writes: []string{"hold a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, strings.Replace(narrow, `{"kind":"User","name":"hans@example.com","mayInitiate":true}`, tc.subjects, 1))
			hop(s, tc.user)
			want := desire{"a": database(1)}
			s.reconcile(want)
			s.ready()
			settled(s)
			s.reconcile(want)
			s.now = s.now.Add(time.Minute)
			s.intend(2)
			hop(s, tc.user)
			want["a"] = database(2)
			s.reconcile(want)
			s.wantWrites(tc.writes...)
			s.stable(want)
		})
	}
}

// A condition on the content of the composite's own parent, which no request shows,
// grants nothing and is reported; its identity is known.
func TestParentInConditions(t *testing.T) {
	cases := map[string]struct {
		condition string
		writes    []string
	}{
		"Identity": {condition: `parent.kind == 'XShop' && parent.metadata.name == 'shop'`, writes: []string{"update a"}},
		"Labels":   {condition: `parent.metadata.labels['env'] == 'dev'`, writes: []string{"hold a"}},
		"None":     {condition: `parent == null`, writes: []string{"hold a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := nestedStage(t)
			s.input = strings.Replace(strings.Replace(narrow, `"trigger":"spec.size"`, fmt.Sprintf(`"trigger":"spec.size","conditions":[%q]`, tc.condition), 1),
				`{"kind":"User","name":"hans@example.com","mayInitiate":true}`, `{"kind":"ServiceAccount","namespace":"crossplane-system","name":"crossplane"}`, 1)
			want := desire{"a": database(1)}
			s.reconcile(want)
			s.settle(want)
			ssa.Child(s.xr.Object, "spec")["size"] = int64(2)
			s.fromAbove(2, 2, "db")
			want["a"] = database(2)
			s.reconcile(want)
			s.wantWrites(tc.writes...)
			_, _, message := s.condition()
			noted := false
			for _, r := range s.rsp.GetResults() {
				noted = noted || r.GetSeverity() == fnv1.Severity_SEVERITY_WARNING && strings.Contains(r.GetMessage(), "AllowancePolicy sizes grants nothing")
			}
			if noted != (name == "Labels") {
				t.Errorf("results: %v; condition: %s", s.rsp.GetResults(), message)
			}
			s.stable(want)
		})
	}
}
