package preview

import (
	"strings"
	"testing"
)

func TestSupported(t *testing.T) {
	cases := map[string]struct {
		output, err string
	}{
		"Newest": {output: "Client Version: v2.2.0\n"}, "NewestPatch": {output: "Client Version: v2.2.17\n"}, "Oldest": {
			output: "Client Version: v1.20.1\n",
		},
		"Between": {output: "Client Version: v2.0.0-rc.1\n"}, "TooNew": {
			output: "Client Version: v2.3.3\n",
			err:    "is version 2.3; preview works with the crossplane CLI of versions 1.20 to 2.2",
		},
		"NextMajor": {output: "Client Version: v3.0.0\n", err: "is version 3.0"}, "TooOld": {output: "Client Version: v1.19.2\n", err: "is version 1.19"},
		"Unknown": {output: "Client Version: \n"}, "Nothing": {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := supported("crossplane", tc.output)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("want error %q, got %v", tc.err, err)
			}
		})
	}
	if err := Supported(t.Context(), "/nothing/there"); err != nil {
		t.Errorf("what does not report its version is tried: %v", err)
	}
}
