package choice

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

type colour string

// TestFlag: what is listed is accepted, and nothing else.
func TestFlag(t *testing.T) {
	type set struct {
		One  colour
		Some []colour
	}
	cases := map[string]struct {
		reason string
		args   []string
		want   set
		err    string
	}{
		"Default":  {reason: "nothing is given", want: set{One: "red"}},
		"Value":    {reason: "a value without what help adds", args: []string{"--one=blue"}, want: set{One: "blue"}},
		"Unlisted": {reason: "the default is accepted, listed or not", args: []string{"--one=blue", "--one=red"}, want: set{One: "red"}},
		"Help": {reason: "what help adds is no part of a value", args: []string{"--one=blue (a cold one)"}, want: set{One: "red"},
			err: `--one must be green or blue, not "blue (a cold one)"`},
		"Other":    {reason: "any other value is refused", args: []string{"--one=pink"}, want: set{One: "red"}, err: `--one must be green or blue, not "pink"`},
		"Empty":    {reason: "no value is one", args: []string{"--one="}, want: set{One: "red"}, err: `--one must be green or blue, not ""`},
		"Comma":    {reason: "values in a list", args: []string{"--some=b,a"}, want: set{One: "red", Some: []colour{"b", "a"}}},
		"Repeated": {reason: "and in repeated flags", args: []string{"--some=a", "--some=*"}, want: set{One: "red", Some: []colour{"a", "*"}}},
		"OneOfTwo": {reason: "one of a list is refused", args: []string{"--some=a,x"}, want: set{One: "red", Some: []colour{"a"}},
			err: `--some must be a, b or *, not "x"`},
		"NoneIn":  {reason: "an empty list has no value", args: []string{"--some="}, want: set{One: "red"}, err: `--some must be a, b or *, not ""`},
		"Unknown": {reason: "another mistake stays as it is", args: []string{"--none"}, want: set{One: "red"}, err: "unknown flag: --none"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, fl := set{}, pflag.NewFlagSet("", pflag.ContinueOnError)
			one, some := One[colour](&got.One, "red", "green", "blue (a cold one)"), Some[colour](&got.Some, "a", "b", "*")
			fl.Var(one, "one", one.List())
			fl.Var(some, "some", some.List())
			err := Explain(fl.Parse(tc.args))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("%s: want %q, got %v", tc.reason, tc.err, err)
			}
		})
	}
}

// TestHelp: help has the values, what it adds about them, and the default.
func TestHelp(t *testing.T) {
	var to colour
	var many []colour
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	one, some := One(&to, "green", "green", "blue (a cold one)", "red"), Some(&many, "only")
	fl.Var(one, "one", one.List()+".")
	fl.Var(some, "some", some.List()+".")
	want := "      --one string     green, blue (a cold one) or red. (default \"green\")\n      --some strings   only.\n"
	if diff := cmp.Diff(want, fl.FlagUsages()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"green", "blue", "red"}, Of(fl.Lookup("one"))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	fl.String("text", "", "")
	if got := Of(fl.Lookup("text")); got != nil {
		t.Errorf("a text has the values %v", got)
	}
}
