package approval

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// apply edits to annotations.
func apply(in annotations, edits map[string]*string) annotations {
	out := maps.Clone(in)
	for k, v := range edits {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}

func admit(t *testing.T, in annotations, generation, intent int64) annotations {
	t.Helper()
	before := maps.Clone(in)
	edits := Admit(in, generation, intent, now)
	if diff := cmp.Diff(before, in); diff != "" {
		t.Errorf("input modified:\n%s", diff)
	}
	out := apply(in, edits)
	if again := Admit(out, generation, intent, now.Add(time.Hour)); len(again) > 0 {
		t.Errorf("admitting what was admitted edits again: %v of %v", again, out)
	}
	return out
}

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
		"New":           {"it takes the parent's current generation", annotations{keyApprovals: once}, 7, 5, annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 7)}},
		"Known":         {"it keeps the generation it was admitted for", annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 5)}, 7, 5, annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 5)}},
		"Stale":         {"a new intent prunes it, and remembers that it did", annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 5)}, 7, 6, annotations{keyClaims: claims(v1alpha1.ClaimPruned, 5)}},
		"Withdrawn":     {"removed before it was used: forgotten", annotations{keyClaims: claims(v1alpha1.ClaimOpen, 5)}, 7, 5, annotations{keyClaims: "[]"}},
		"UsedAgain":     {"GitOps writes a used one again: no new approval, and no fight", annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimUsed, 5)}, 7, 6, annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimUsed, 5)}},
		"PrunedAgain":   {"the same for a pruned one", annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimPruned, 5)}, 7, 6, annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimPruned, 5)}},
		"UsedRemoved":   {"a used one stays remembered", annotations{keyClaims: claims(v1alpha1.ClaimUsed, 5)}, 7, 6, annotations{keyClaims: claims(v1alpha1.ClaimUsed, 5)}},
		"Pending":       {"a use under way is left alone, stale or not", annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimPending, 5)}, 7, 6, annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimPending, 5)}},
		"Always":        {"is never admitted and never pruned", annotations{keyApprovals: `[{"kind":"X","name":"a","mode":"always","generation":1}]`}, 7, 6, annotations{keyApprovals: `[{"kind":"X","name":"a","mode":"always","generation":1}]`}},
		"ApproveID":     {"the short form is admitted alike", annotations{keyApprove + "d": "once"}, 7, 5, annotations{keyApprove + "d": "once", keyClaims: Claims{{Content: content(v1alpha1.Approval{Mode: "once", Digest: "d"}), State: v1alpha1.ClaimOpen, Generation: 7, Digest: "d", At: Stamp(now)}}.String()}},
		"ApproveStale":  {"and pruned alike", annotations{keyApprove + "d": "generation", keyClaims: Claims{{Content: content(v1alpha1.Approval{Mode: "generation", Digest: "d"}), State: v1alpha1.ClaimOpen, Generation: 5, At: Stamp(now)}}.String()}, 7, 6, annotations{keyClaims: Claims{{Content: content(v1alpha1.Approval{Mode: "generation", Digest: "d"}), State: v1alpha1.ClaimPruned, Generation: 5, At: Stamp(now)}}.String()}},
		"Unparsable":    {"what cannot be read is not touched", annotations{keyApprovals: "{"}, 7, 5, annotations{keyApprovals: "{"}},
		"NothingToKeep": {"no claims where there is nothing to claim", annotations{"example.org/a": "b"}, 7, 5, annotations{"example.org/a": "b"}},
		"NoGeneration":  {"kinds without generations", annotations{keyApprovals: once}, 0, 0, annotations{keyApprovals: once, keyClaims: claims(v1alpha1.ClaimOpen, 0)}},
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

// The life of a once approval that GitOps never stops writing.
func TestOnceUnderGitOps(t *testing.T) {
	git := annotations{keyApprovals: `[{"kind":"Deployment","name":"web"}]`}
	q := query()

	stored := admit(t, git, 5, 5)
	m, ok := Parse(stored).Approved(q)
	if !ok || !m.NeedsClaim() {
		t.Fatal("a fresh approval must be usable")
	}
	taken, claim := Parse(stored).Claims.Take(m.Entry, q.Use, now)
	stored[keyClaims] = taken.String()
	stored[keyClaims] = taken.Set(claim.ID, v1alpha1.ClaimUsed, now).String()
	stored = apply(stored, Remove(stored, func(e Entry) bool { return e.Content == m.Entry.Content }))
	if _, ok := stored[keyApprovals]; ok {
		t.Error("the used entry leaves approvals")
	}
	stored[keyApprovals] = git[keyApprovals] // the next sync
	stored = admit(t, stored, 6, 5)
	if _, ok := Parse(stored).Approved(q); ok {
		t.Error("a used approval came back")
	}
}

func TestRemove(t *testing.T) {
	a := func(e Entry) bool { return e.Name == "a" || e.Digest == "a" }
	text := func(s string) *string { return &s }
	cases := map[string]struct {
		reason string
		in     annotations
		want   map[string]*string
	}{
		"One":         {"the others stay, unknown fields included", annotations{keyApprovals: `[{"kind":"X","name":"a"},{"kind":"X","name":"b","ticket":"OPS-1"}]`}, map[string]*string{keyApprovals: text(`[{"kind":"X","name":"b","ticket":"OPS-1"}]`)}},
		"YAML":        {"becomes JSON", annotations{keyApprovals: "- kind: X\n  name: a\n- kind: X\n  name: b\n"}, map[string]*string{keyApprovals: text(`[{"kind":"X","name":"b"}]`)}},
		"Last":        {"an empty list goes altogether", annotations{keyApprovals: `[{"kind":"X","name":"a"}]`}, map[string]*string{keyApprovals: nil}},
		"ApproveID":   {"the short form", annotations{keyApprove + "a": "once", keyApprove + "b": "once"}, map[string]*string{keyApprove + "a": nil}},
		"None":        {"nothing to remove", annotations{keyApprovals: `[{"kind":"X","name":"b"}]`}, map[string]*string{}},
		"Unparsable":  {"never touched", annotations{keyApprovals: `{`}, map[string]*string{}},
		"Numbers":     {"a generation stays an integer", annotations{keyApprovals: `[{"kind":"X","name":"a"},{"kind":"X","name":"b","generation":12345678}]`}, map[string]*string{keyApprovals: text(`[{"generation":12345678,"kind":"X","name":"b"}]`)}},
		"NoApprovals": {"nothing there", nil, map[string]*string{}},
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
