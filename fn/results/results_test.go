package results

import (
	"strings"
	"testing"
	"unicode/utf8"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
)

func TestCut(t *testing.T) {
	cases := map[string]struct {
		reason, text string
		size         int
		want         string
	}{
		"Fits":      {reason: "a short text stays", text: "abc", size: 3, want: "abc"},
		"Long":      {reason: "the ellipsis counts", text: "abcdefgh", size: 6, want: "abc…"},
		"Multibyte": {reason: "no character is split", text: "aäöü and more", size: 7, want: "aä…"},
		"NoRoom":    {reason: "nothing but the ellipsis is left", text: "abcdef", size: 1, want: "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Cut(tc.text, tc.size); got != tc.want || !utf8.ValidString(got) {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// A response has at most Max warnings and one that counts the rest, each bounded.
func TestWarn(t *testing.T) {
	warnings := func(n int) []Warning {
		out := make([]Warning, n)
		for i := range out {
			out[i] = Warning{Reason: "Held", Text: strings.Repeat("x", 2*MaxMessage)}
		}
		return out
	}
	cases := map[string]struct {
		reason      string
		list, total int
		want        int
		last        string
	}{
		"None":    {reason: "nothing to report"},
		"Few":     {reason: "all of them", list: Max, total: Max, want: Max},
		"Many":    {reason: "the rest is counted", list: Max + 5, total: Max + 5, want: Max + 1, last: "and 5 more"},
		"Omitted": {reason: "also what is not in the list", list: Max, total: Max + 7, want: Max + 1, last: "and 7 more"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rsp := &fnv1.RunFunctionResponse{}
			Warn(rsp, warnings(tc.list), tc.total, Reason)
			got := rsp.GetResults()
			if len(got) != tc.want {
				t.Fatalf("%s: want %d results, got %d", tc.reason, tc.want, len(got))
			}
			for i, r := range got {
				if len(r.GetMessage()) > MaxMessage || r.GetSeverity() != fnv1.Severity_SEVERITY_WARNING {
					t.Errorf("result %d: %s of %d bytes", i, r.GetSeverity(), len(r.GetMessage()))
				}
			}
			if tc.last == "" {
				return
			}
			if last := got[len(got)-1]; last.GetMessage() != tc.last || last.GetReason() != Reason {
				t.Errorf("%s: last is %s: %s", tc.reason, last.GetReason(), last.GetMessage())
			}
		})
	}
}
