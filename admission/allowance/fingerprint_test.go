package allowance

import "testing"

// TestFingerprint: fingerprints are stored on objects, so that they must never change (KR-06-21, KR-06-23).
func TestFingerprint(t *testing.T) {
	cases := map[string]struct {
		reason string
		parts  []string
		want   string
	}{
		"None":   {reason: "nothing is known"},
		"Image":  {reason: "the image of a controller", parts: []string{"a:1 sha256:aa"}, want: "a863a1d231a9"},
		"Images": {reason: "and what it composes by", parts: []string{"a:1 sha256:aa", "composition db-2"}, want: "81d0e95b24e1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Fingerprint(tc.parts); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
