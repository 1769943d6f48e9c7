package approval

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func admit(t *testing.T, in annotations, generation, intent int64) annotations {
	t.Helper()
	before := maps.Clone(in)
	edits := Admit(in, generation, intent, now, nil, nil)
	if diff := cmp.Diff(before, in); diff != "" {
		t.Errorf("input modified:\n%s", diff)
	}
	out := annotation.Apply(in, edits)
	if again := Admit(out, generation, intent, now.Add(time.Hour), nil, nil); len(again) > 0 {
		t.Errorf("admitting what was admitted edits again: %v of %v", again, out)
	}
	return out
}

// TestAdmit covers KR-05-32.
func TestAdmit(t *testing.T) {
	once := `[{"kind":"X","name":"a"}]`
	e := entry(t, once)
	claims := func(state v1alpha1.ClaimState, generation int64) string {
		return Claims{{Content: e.Content, State: state, Generation: generation, At: Stamp(now)}}.String()
	}
	cases := map[string]struct {
		reason             string
		in                 annotations
		generation, intent int64
		want               annotations
	}{
		"New": {reason: "it takes the parent's current generation", in: annotations{keyApprovals: once}, generation: 7,
			intent: 5, want: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 7)}},
		"Known": {reason: "it keeps the generation it was admitted for",
			in: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 5)}, generation: 7, intent: 5,
			want: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 5)}},
		"Stale": {reason: "a new intent prunes it, and remembers that it did",
			in: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 5)}, generation: 7, intent: 6,
			want: annotations{keyClaims: claims(v1alpha1.ClaimPruned, 5)}},
		"Withdrawn": {reason: "removed before it was used: forgotten", in: annotations{keyClaims: claims(v1alpha1.ClaimOpen, 5)},
			generation: 7, intent: 5, want: annotations{keyClaims: "[]"}},
		"UsedAgain": {reason: "GitOps writes a used one again: no new approval, and no fight",
			in: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimUsed, 5)}, generation: 7, intent: 6,
			want: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimUsed, 5)}},
		"PrunedAgain": {reason: "the same for a pruned one",
			in: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimPruned, 5)}, generation: 7, intent: 6,
			want: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimPruned, 5)}},
		"UsedRemoved": {reason: "a used one stays remembered", in: annotations{keyClaims: claims(v1alpha1.ClaimUsed, 5)},
			generation: 7, intent: 6, want: annotations{keyClaims: claims(v1alpha1.ClaimUsed, 5)}},
		"Pending": {reason: "a use under way is left alone, stale or not",
			in: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimPending, 5)}, generation: 7, intent: 6,
			want: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimPending, 5)}},
		"Always": {reason: "is never admitted and never pruned",
			in: annotations{keyApprovals: `[{"kind":"X","name":"a","mode":"always","generation":1}]`}, generation: 7, intent: 6,
			want: annotations{keyApprovals: `[{"kind":"X","name":"a","mode":"always","generation":1}]`}},
		"ApproveID": {reason: "the short form is admitted alike", in: annotations{keyApprove + "d": "once"}, generation: 7,
			intent: 5,
			want: annotations{keyApprove + "d": "once", keyClaims: Claims{{Content: content(v1alpha1.Approval{Mode: "once", Digest: "d"}, nil),
				State: v1alpha1.ClaimOpen, Generation: 7, Digest: "d", At: Stamp(now)}}.String()}},
		"ApproveStale": {reason: "and pruned alike",
			in: annotations{keyApprove + "d": "generation", keyClaims: Claims{{Content: content(v1alpha1.Approval{Mode: "generation",
				Digest: "d"}, nil), State: v1alpha1.ClaimOpen, Generation: 5, At: Stamp(now)}}.String()},
			generation: 7, intent: 6,
			want: annotations{keyClaims: Claims{{Content: content(v1alpha1.Approval{Mode: "generation", Digest: "d"}, nil),
				State: v1alpha1.ClaimPruned, Generation: 5, At: Stamp(now)}}.String()}},
		"Unparsable": {reason: "what cannot be read is not touched", in: annotations{keyApprovals: "{"}, generation: 7, intent: 5,
			want: annotations{keyApprovals: "{"}},
		"NothingToKeep": {reason: "no claims where there is nothing to claim", in: annotations{"example.org/a": "b"}, generation: 7,
			intent: 5, want: annotations{"example.org/a": "b"}},
		"NoGeneration": {reason: "kinds without generations", in: annotations{keyApprovals: once},
			want: annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 0)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := admit(t, tc.in, tc.generation, tc.intent)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// An approval that names a generation older than the intent is stale on
// arrival; taking a second write to notice it would leave the object unstable.
func TestAdmitStaleOnArrival(t *testing.T) {
	in := annotations{keyApprovals: `[{"kind":"X","name":"a","generation":2},{"kind":"X","name":"b","generation":9}]`}
	got := admit(t, in, 7, 6)
	if got[keyApprovals] != in[keyApprovals] {
		t.Errorf("what a person just wrote is not taken away without a word, got %s", got[keyApprovals])
	}
	claims := ParseClaims(got[keyClaims])
	if len(claims) != 2 || claims[0].State != v1alpha1.ClaimPruned || claims[1].State != v1alpha1.ClaimOpen {
		t.Errorf("want the stale one without effect and the other open, got %s", got[keyClaims])
	}
}

// A request that is decided again on its own result (a reinvocation) finds the
// entries it pruned gone: they stay remembered.
func TestAdmitAgainAfterPruning(t *testing.T) {
	stored := admit(t, annotations{keyApprovals: `[{"kind":"X","name":"a"}]`}, 5, 5)
	pruned := admit(t, stored, 6, 6)
	again := maps.Clone(pruned)
	again[keyClaims] = stored[keyClaims] // system annotations are restored first
	if diff := cmp.Diff(pruned, admit(t, again, 6, 6)); diff != "" {
		t.Errorf("-first, +again:\n%s", diff)
	}
}

// The life of a once approval that GitOps never stops writing (KR-05-35).
func TestOnceUnderGitOps(t *testing.T) {
	git := annotations{keyApprovals: `[{"kind":"Deployment","name":"web"}]`}
	q := query()

	stored := admit(t, git, 5, 5)
	m, ok := Parse(stored).Approved(q)
	if !ok || !m.NeedsClaim() {
		t.Fatal("a fresh approval must be usable")
	}
	taken, claim := Parse(stored).Claims.Take(m, q.Use, now)
	stored[keyClaims] = taken.String()
	stored[keyClaims] = taken.Set(claim.ID, v1alpha1.ClaimUsed, now).String()
	stored = annotation.Apply(stored, Remove(stored, func(e Entry) bool { return e.Content == m.Entry.Content }))
	if _, ok := stored[keyApprovals]; ok {
		t.Error("the used entry leaves approvals")
	}
	stored[keyApprovals] = git[keyApprovals] // the next sync
	stored = admit(t, stored, 6, 5)
	if _, ok := Parse(stored).Approved(q); ok {
		t.Error("a used approval came back")
	}
}

// TestRemove covers KR-05-37.
func TestRemove(t *testing.T) {
	a := func(e Entry) bool { return e.Name == "a" || e.Digest == "a" }
	text := func(s string) *string { return &s }
	cases := map[string]struct {
		reason string
		in     annotations
		want   map[string]*string
	}{
		"One": {reason: "the others stay, unknown fields included",
			in:   annotations{keyApprovals: `[{"kind":"X","name":"a"},{"kind":"X","name":"b","ticket":"OPS-1"}]`},
			want: map[string]*string{keyApprovals: text(`[{"kind":"X","name":"b","ticket":"OPS-1"}]`)}},
		"YAML": {reason: "becomes JSON", in: annotations{keyApprovals: "- kind: X\n  name: a\n- kind: X\n  name: b\n"},
			want: map[string]*string{keyApprovals: text(`[{"kind":"X","name":"b"}]`)}},
		"Last": {reason: "an empty list goes altogether", in: annotations{keyApprovals: `[{"kind":"X","name":"a"}]`},
			want: map[string]*string{keyApprovals: nil}},
		"ApproveID": {reason: "the short form", in: annotations{keyApprove + "a": "once", keyApprove + "b": "once"},
			want: map[string]*string{keyApprove + "a": nil}},
		"None": {reason: "nothing to remove", in: annotations{keyApprovals: `[{"kind":"X","name":"b"}]`},
			want: map[string]*string{}},
		"Unparsable": {reason: "never touched", in: annotations{keyApprovals: `{`}, want: map[string]*string{}},
		"Numbers": {reason: "a generation stays an integer",
			in:   annotations{keyApprovals: `[{"kind":"X","name":"a"},{"kind":"X","name":"b","generation":12345678}]`},
			want: map[string]*string{keyApprovals: text(`[{"generation":12345678,"kind":"X","name":"b"}]`)}},
		"NoApprovals": {reason: "nothing there", want: map[string]*string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.in)
			if diff := cmp.Diff(tc.want, Remove(tc.in, a)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, tc.in); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// An approval of exactly what is held is not stale before it was held, in an old record and on arrival (KR-05-58).
func TestAdmitHeld(t *testing.T) {
	held := func(digest string) (Known, bool) { return Known{Named: true, Since: 5}, digest == "abc" }
	for name, tc := range map[string]struct {
		value string
		held  Lookup
		kept  bool
	}{
		"Held":        {value: `[{"kind":"Part","name":"one","digest":"abc","mode":"once","generation":5}]`, held: held, kept: true},
		"Earlier":     {value: `[{"kind":"Part","name":"one","digest":"abc","mode":"once","generation":4}]`, held: held},
		"Other":       {value: `[{"kind":"Part","name":"one","digest":"def","mode":"once","generation":5}]`, held: held},
		"AnyDigest":   {value: `[{"kind":"Part","name":"one","mode":"generation","generation":5}]`, held: held},
		"NothingHeld": {value: `[{"kind":"Part","name":"one","digest":"abc","mode":"once","generation":5}]`},
	} {
		t.Run(name, func(t *testing.T) {
			in := map[string]string{v1alpha1.AnnotationKeyApprovals: tc.value}
			for k, v := range Admit(in, 5, 4, now, tc.held, nil) { // written before the intent
				in[k] = *v
			}
			edits := Admit(in, 6, 6, now, tc.held, nil)
			if _, pruned := edits[v1alpha1.AnnotationKeyApprovals]; pruned == tc.kept {
				t.Errorf("pruned: %t, %v", pruned, edits)
			}
			state := v1alpha1.ClaimPruned
			if tc.kept {
				state = v1alpha1.ClaimOpen
			}
			if fresh := Parse(merge(map[string]string{v1alpha1.AnnotationKeyApprovals: tc.value}, tc.held)).Claims; len(fresh) != 1 || fresh[0].State != state {
				t.Errorf("on arrival: %v", fresh)
			}
		})
	}
}

// merge what Admit changes at intent 6.
func merge(in map[string]string, held Lookup) map[string]string {
	for k, v := range Admit(in, 6, 6, now, held, nil) {
		in[k] = *v
	}
	return in
}
