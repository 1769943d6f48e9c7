package approval

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestAt: what has expired is not in force (KR-14-30, KR-14-31).
func TestAt(t *testing.T) {
	in := annotations{
		keyApprovals: `[{"kind":"X","name":"a","mode":"always","expiry":"2026-01-02T00:00:00Z"},{"kind":"X","name":"b","mode":"always"}]`,
		keyFreeze:    `{"user":"alice","expiry":"2026-01-02T00:00:00Z"}`,
	}
	end := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason    string
		now       time.Time
		approvals []string
		frozen    bool
	}{
		"Before": {reason: "in force", now: end.Add(-time.Second), approvals: []string{"a", "b"}, frozen: true},
		"At":     {reason: "over at the very time", now: end, approvals: []string{"b"}},
		"After":  {reason: "over", now: end.Add(time.Hour), approvals: []string{"b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all := Parse(in)
			got := all.At(tc.now)
			var names []string
			for _, e := range got.Approvals {
				names = append(names, e.Name)
			}
			if diff := cmp.Diff(tc.approvals, names); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if (got.Freeze != nil) != tc.frozen {
				t.Errorf("%s: frozen %v", tc.reason, got.Freeze)
			}
			if diff := cmp.Diff(Parse(in), all); diff != "" {
				t.Errorf("the set was modified:\n%s", diff)
			}
			if diff := cmp.Diff(got, got.At(tc.now)); diff != "" {
				t.Errorf("applied again, another set:\n%s", diff)
			}
		})
	}
}

// TestFreezeOf is as the Freeze of the Set.
func TestFreezeOf(t *testing.T) {
	end := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, value := range []string{"", "false", "true", `{"user":"a"}`, "until monday", `{"expiry":"2026-01-02T00:00:00Z"}`, `{"expiry":"2026-01-03T00:00:00Z"}`} {
		in := annotations{keyFreeze: value, keyApprovals: "["}
		if diff := cmp.Diff(ParseAt(in, end).Freeze, FreezeOf(in, end)); diff != "" {
			t.Errorf("%q: -set, +got:\n%s", value, diff)
		}
	}
	if f := FreezeOf(annotations{keyApprovals: "["}, end); f != nil {
		t.Errorf("got %v without the annotation", f)
	}
}

// TestAdmitExpired prunes an approval that has expired, whatever its mode, and leaves one that was expired when it was
// written where it is, without effect (KR-14-30).
func TestAdmitExpired(t *testing.T) {
	for _, mode := range []string{"once", "generation", "always"} {
		in := annotations{keyApprovals: `[{"kind":"X","name":"a","mode":"` + mode + `","expiry":"2026-01-02T00:00:00Z"},{"kind":"X","name":"b","mode":"always"}]`}
		end := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
		at := func(in annotations, now time.Time) annotations {
			return annotation.Apply(in, Admit(in, 7, 6, now, nil, nil))
		}
		early := at(in, end.Add(-time.Minute))
		if early[keyApprovals] != in[keyApprovals] {
			t.Errorf("%s: removed before its expiry: %s", mode, early[keyApprovals])
		}
		pruned := at(early, end)
		if want := `[{"kind":"X","mode":"always","name":"b"}]`; pruned[keyApprovals] != want {
			t.Errorf("%s: want %s, got %s", mode, want, pruned[keyApprovals])
		}
		if c := ParseClaims(pruned[keyClaims]); len(c) != 1 || c[0].State != v1alpha1.ClaimPruned {
			t.Errorf("%s: want it recorded as pruned, got %v", mode, c)
		}
		if again := at(pruned, end.Add(time.Hour)); cmp.Diff(pruned, again) != "" {
			t.Errorf("%s: admitted again, it changes: %s", mode, cmp.Diff(pruned, again))
		}
		late := at(in, end)
		if late[keyApprovals] != in[keyApprovals] {
			t.Errorf("%s: expired when it was written, it stays: %s", mode, late[keyApprovals])
		}
		if again := at(late, end.Add(time.Hour)); cmp.Diff(late, again) != "" {
			t.Errorf("%s: GitOps that keeps writing it, and Admit, alternate: %s", mode, cmp.Diff(late, again))
		}
	}
}
