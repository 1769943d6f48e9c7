package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestPeriod: expiresAfter takes the forms of --for, and names them where it is another one (KR-12-18).
func TestPeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{`"24h"`: 24 * time.Hour, `"1d"`: 24 * time.Hour, `"1d12h"`: 36 * time.Hour, `"90m"`: 90 * time.Minute} {
		p := Period{}
		if err := json.Unmarshal([]byte(text), &p); err != nil || p.Duration != want {
			t.Errorf("%s: %s, %v, want %s", text, p.Duration, err, want)
		}
		raw, err := json.Marshal(p)
		again := Period{}
		if err != nil || json.Unmarshal(raw, &again) != nil || again != p {
			t.Errorf("%s: written as %s, %v", text, raw, err)
		}
	}
	for _, text := range []string{`"1day"`, `"1 d"`, `""`, `"d"`, `5`, `"200000000000000d"`} {
		if err := json.Unmarshal([]byte(text), &Period{}); err == nil || !strings.Contains(err.Error(), "1d") && !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
