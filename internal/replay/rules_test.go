package replay

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the expected output")

// TestRules prints who may approve each recorded change, and when, by the ApprovalRules in files (KR-14-18).
func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		rules  string
		at     string
	}{
		"rules":     {reason: "at the time of the change, on a Friday", rules: "rules.yaml"},
		"at":        {reason: "on a Monday morning", rules: "rules.yaml", at: "2026-01-05T09:00:00Z"},
		"christmas": {reason: "when the other rule is closed", rules: "rules.yaml", at: "2026-12-24T09:00:00Z"},
		"deletions": {reason: "a change that no rule matches needs one approval", rules: "deletions.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := ParseAt(tc.at)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			f := Files{Policies: []string{filepath.Join("testdata", tc.rules)}, Events: filepath.Join("testdata", "audit.log"), At: at}
			if err := f.Test(t.Context(), &out); err == nil || err.Error() != "2 recorded changes would have been refused" {
				t.Errorf("error %v", err)
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("%s (-):\n%s", tc.reason, diff)
			}
		})
	}
}

// An ApprovalRule that does not compile is no basis for an answer (KR-14-18).
func TestRulesCompile(t *testing.T) {
	rule := file(t, `{apiVersion: kausality.io/v1alpha1, kind: ApprovalRule, metadata: {name: a}, spec: {match: {}, require: [{count: 1}]}}`)
	f := Files{Policies: []string{rule},
		Events: filepath.Join("testdata", "audit.log")}
	var out bytes.Buffer
	if err := f.Test(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "ApprovalRule a does not compile: spec.match: give at least one of") {
		t.Errorf("error %v", err)
	}
}

func TestParseAt(t *testing.T) {
	if at, err := ParseAt(""); err != nil || !at.IsZero() {
		t.Errorf("%s, %v", at, err)
	}
	if at, err := ParseAt("2026-01-05T09:00:00+01:00"); err != nil || !at.Equal(time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("%s, %v", at, err)
	}
	if _, err := ParseAt("monday"); err == nil {
		t.Error("monday is a time")
	}
}
