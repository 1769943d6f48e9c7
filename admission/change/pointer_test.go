package change

import "testing"

func TestPointer(t *testing.T) {
	cases := map[string]struct {
		reason string
		keys   []string
		want   string
	}{
		"Document": {reason: "no keys are the whole document", keys: nil, want: ""},
		"Plain":    {reason: "one slash before each key", keys: []string{"metadata", "uid"}, want: "/metadata/uid"},
		"Annotation": {reason: "a slash within a key is escaped", keys: []string{"metadata", "annotations", "kausality.io/claims"},
			want: "/metadata/annotations/kausality.io~1claims"},
		"Tilde":    {reason: "a tilde is escaped, once", keys: []string{"a~1b", "~/"}, want: "/a~01b/~0~1"},
		"EmptyKey": {reason: "the empty key is a key", keys: []string{""}, want: "/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Pointer(tc.keys...); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}
