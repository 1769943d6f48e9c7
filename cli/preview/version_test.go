package preview

import (
	"strings"
	"testing"
)

func TestSupported(t *testing.T) {
	cases := map[string]struct {
		said, err string
	}{
		"Newest": {"Client Version: v2.2.0\n", ""}, "NewestPatch": {"Client Version: v2.2.17\n", ""}, "Oldest": {"Client Version: v1.20.1\n", ""},
		"Between": {"Client Version: v2.0.0-rc.1\n", ""}, "TooNew": {"Client Version: v2.3.3\n", "is version 2.3; preview works with the crossplane CLI of versions 1.20 to 2.2"},
		"NextMajor": {"Client Version: v3.0.0\n", "is version 3.0"}, "TooOld": {"Client Version: v1.19.2\n", "is version 1.19"},
		"Unknown": {"Client Version: \n", ""}, "Nothing": {"", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := supported("crossplane", tc.said)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("want error %q, got %v", tc.err, err)
			}
		})
	}
	if err := Supported(t.Context(), "/nothing/there"); err != nil {
		t.Errorf("what does not tell its version is tried: %v", err)
	}
}
