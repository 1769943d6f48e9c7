package annotate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func TestDifferences(t *testing.T) {
	value := func(s string) *string { return &s }
	cases := map[string]struct {
		reason        string
		before, after *string
		want          []string
	}{
		"Set":       {"there was none", nil, value(`{"user":"hans"}`), []string{`none → {"user":"hans"}`}},
		"Removed":   {"there is none any more", value("true"), nil, []string{"true → none"}},
		"Mode":      {"a word", value("once"), value("always"), []string{"once → always"}},
		"Same":      {"nothing is to do", value("once"), value("once"), nil},
		"Empty":     {"an empty value is not none", value(""), value("true"), []string{`"" → true`}},
		"YAML":      {"several lines become one", value("user: alice\nmessage: a <b>\n"), value(`{"user":"hans"}`), []string{`{"message":"a <b>","user":"alice"} → {"user":"hans"}`}},
		"First":     {"of a list its entries", nil, value(`[{"kind":"A"}]`), []string{`none → {"kind":"A"}`}},
		"Next":      {"entries of others are not in it, however they are written", value("- {name: x, kind: A}\n"), value(`[{"kind":"A","name":"x"},{"kind":"B"}]`), []string{`none → {"kind":"B"}`}},
		"Withdrawn": {"what goes comes first", value(`[{"kind":"A"},{"kind":"B"},{"kind":"A"}]`), value(`[{"kind":"A"},{"kind":"C"}]`), []string{`{"kind":"B"} → none`, `{"kind":"A"} → none`, `none → {"kind":"C"}`}},
		"Last":      {"an empty list goes", value(`[{"kind":"A"}]`), nil, []string{`{"kind":"A"} → none`}},
		"Layout":    {"only written differently", value("- kind: A\n"), value(`[{"kind":"A"}]`), []string{`- kind: A\u000a → [{"kind":"A"}]`}},
		"Garbage":   {"what does not parse stands as it is", value("[{"), value("true"), []string{"[{ → true"}},
		"Terminal":  {"nobody's terminal is written to", value("\x1b[2J\u009b1m"), nil, []string{`\u001b[2J\u009b1m → none`}},
		"Long":      {"what is long is cut", nil, value(strings.Repeat("ä", 500)), []string{"none → " + strings.Repeat("ä", 400) + "…"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := Change{Key: keyFreeze, Before: tc.before, After: tc.after, Unchanged: same(tc.before, tc.after)}
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
		"Same":          {"nobody else wrote", keyRejections, AddRejection(r), nil, nil, false},
		"OtherEntry":    {"what is added is the same", keyRejections, AddRejection(r), nil, annotations{keyRejections: "[{kind: X, name: b, reason: x}]"}, false},
		"SameEntry":     {"it stands there already", keyRejections, AddRejection(r), nil, annotations{keyRejections: mine}, false},
		"Withdraw":      {"one more would go", keyRejections, WithdrawRejections(r), annotations{keyRejections: mine}, annotations{keyRejections: strings.Replace(mine, "]", `,{"apiVersion":"v1","kind":"ConfigMap","name":"a","reason":"x"}]`, 1)}, true},
		"WithdrawOther": {"those of others stay", keyRejections, WithdrawRejections(r), annotations{keyRejections: mine}, annotations{keyRejections: strings.Replace(mine, "]", `,{"kind":"X","name":"b","reason":"x"}]`, 1)}, false},
		"Unfreeze":      {"somebody froze it anew", keyFreeze, Remove, annotations{keyFreeze: `{"user":"hans"}`}, annotations{keyFreeze: `{"user":"alice"}`}, true},
		"UnfreezeLong":  {"also where what is shown is cut", keyFreeze, Remove, annotations{keyFreeze: long + "a"}, annotations{keyFreeze: long + "b"}, true},
		"Unfrozen":      {"somebody unfroze it", keyFreeze, Remove, annotations{keyFreeze: "true"}, nil, false},
		"Overwrite":     {"another freeze was there", keyFreeze, Freeze(v1alpha1.Freeze{User: "hans"}, true), nil, annotations{keyFreeze: `{"user":"alice"}`}, true},
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
