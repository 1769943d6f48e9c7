package annotate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func TestDifferences(t *testing.T) {
	value := func(s string) *string { return &s }
	cases := map[string]struct {
		reason        string
		before, after *string
		want          []string
	}{
		"Set":     {reason: "there was none", after: value(`{"user":"hans"}`), want: []string{`none → {"user":"hans"}`}},
		"Removed": {reason: "there is none any more", before: value("true"), want: []string{"true → none"}},
		"Mode":    {reason: "a word", before: value("once"), after: value("always"), want: []string{"once → always"}},
		"Same":    {reason: "nothing is to do", before: value("once"), after: value("once")},
		"Empty":   {reason: "an empty value is not none", before: value(""), after: value("true"), want: []string{`"" → true`}},
		"YAML": {
			reason: "several lines become one",
			before: value("user: alice\nmessage: a <b>\n"),
			after:  value(`{"user":"hans"}`),
			want:   []string{`{"message":"a <b>","user":"alice"} → {"user":"hans"}`},
		},
		"First": {reason: "of a list its entries", after: value(`[{"kind":"A"}]`), want: []string{`none → {"kind":"A"}`}},
		"Next": {
			reason: "entries of others are not in it, however they are written",
			before: value("- {name: x, kind: A}\n"),
			after:  value(`[{"kind":"A","name":"x"},{"kind":"B"}]`),
			want:   []string{`none → {"kind":"B"}`},
		},
		"Withdrawn": {
			reason: "what goes comes first",
			before: value(`[{"kind":"A"},{"kind":"B"},{"kind":"A"}]`),
			after:  value(`[{"kind":"A"},{"kind":"C"}]`),
			want:   []string{`{"kind":"B"} → none`, `{"kind":"A"} → none`, `none → {"kind":"C"}`},
		},
		"Last": {reason: "an empty list goes", before: value(`[{"kind":"A"}]`), want: []string{`{"kind":"A"} → none`}},
		"Layout": {
			reason: "only written differently",
			before: value("- kind: A\n"),
			after:  value(`[{"kind":"A"}]`),
			want:   []string{`- kind: A\u000a → [{"kind":"A"}]`},
		},
		"Garbage": {reason: "what does not parse is shown as it is", before: value("[{"), after: value("true"), want: []string{"[{ → true"}},
		"Terminal": {
			reason: "control characters reach no terminal",
			before: value("\x1b[2J\u009b1m"),
			want:   []string{`\u001b[2J\u009b1m → none`},
		},
		"Long": {
			reason: "what is long is cut",
			after:  value(strings.Repeat("ä", 500)),
			want:   []string{"none → " + strings.Repeat("ä", 400) + "…"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := Change{Key: keyFreeze, Before: tc.before, After: tc.after, Unchanged: ptr.Equal(tc.before, tc.after)}
			var got []string
			for _, d := range c.Differences() {
				got = append(got, d.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// What was shown is what is written, or nothing is.
func TestAsShown(t *testing.T) {
	r := v1alpha1.Rejection{APIVersion: "v1", Kind: "ConfigMap", Name: "a", Reason: "audit"}
	mine := `[{"apiVersion":"v1","kind":"ConfigMap","name":"a","reason":"audit"}]`
	long := strings.Repeat("x", 2*longest)
	cases := map[string]struct {
		reason     string
		key        string
		edit       Edit
		shown, now annotations
		moved      bool
	}{
		"Same": {reason: "no other user wrote", key: keyRejections, edit: AddRejection(r)},
		"OtherEntry": {
			reason: "what is added is the same",
			key:    keyRejections,
			edit:   AddRejection(r),
			now:    annotations{keyRejections: "[{kind: X, name: b, reason: x}]"},
		},
		"SameEntry": {reason: "it is stored already", key: keyRejections, edit: AddRejection(r), now: annotations{keyRejections: mine}},
		"Withdraw": {
			reason: "one more would go",
			key:    keyRejections,
			edit:   WithdrawRejections(r),
			shown:  annotations{keyRejections: mine},
			now:    annotations{keyRejections: strings.Replace(mine, "]", `,{"apiVersion":"v1","kind":"ConfigMap","name":"a","reason":"x"}]`, 1)},
			moved:  true,
		},
		"WithdrawOther": {
			reason: "those of others stay",
			key:    keyRejections,
			edit:   WithdrawRejections(r),
			shown:  annotations{keyRejections: mine},
			now:    annotations{keyRejections: strings.Replace(mine, "]", `,{"kind":"X","name":"b","reason":"x"}]`, 1)},
		},
		"Unfreeze": {
			reason: "another user froze it again",
			key:    keyFreeze,
			edit:   Remove,
			shown:  annotations{keyFreeze: `{"user":"hans"}`},
			now:    annotations{keyFreeze: `{"user":"alice"}`},
			moved:  true,
		},
		"UnfreezeLong": {
			reason: "also where what is shown is cut",
			key:    keyFreeze,
			edit:   Remove,
			shown:  annotations{keyFreeze: long + "a"},
			now:    annotations{keyFreeze: long + "b"},
			moved:  true,
		},
		"Unfrozen": {reason: "another user unfroze it", key: keyFreeze, edit: Remove, shown: annotations{keyFreeze: "true"}},
		"Overwrite": {
			reason: "another freeze was stored",
			key:    keyFreeze,
			edit:   Freeze(v1alpha1.Freeze{User: "hans"}, true),
			now:    annotations{keyFreeze: `{"user":"alice"}`},
			moved:  true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			shown, err := edited(tc.shown, tc.key, tc.edit)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := edited(tc.shown, tc.key, AsShown(shown, tc.edit)); err != nil || !cmp.Equal(again, shown) {
				t.Errorf("where nothing happened it is %+v, %v; shown was %+v", again, err, shown)
			}
			got, err := edited(tc.now, tc.key, AsShown(shown, tc.edit))
			if tc.moved != errors.Is(err, ErrMoved) || !tc.moved && err != nil {
				t.Fatalf("%s: the error is %v", tc.reason, err)
			}
			if want, _ := edited(tc.now, tc.key, tc.edit); err == nil && !cmp.Equal(got, want) {
				t.Errorf("%s: want %+v, got %+v", tc.reason, want, got)
			}
		})
	}
}

// An edit that is not possible any more is its own error.
func TestAsShownRefused(t *testing.T) {
	edit := Freeze(v1alpha1.Freeze{User: "hans"}, false)
	shown, err := edited(nil, keyFreeze, edit)
	if err != nil {
		t.Fatal(err)
	}
	frozen := &AlreadyFrozenError{}
	if _, err := edited(annotations{keyFreeze: "true"}, keyFreeze, AsShown(shown, edit)); !errors.As(err, &frozen) {
		t.Errorf("want that it is frozen already, got %v", err)
	}
}
