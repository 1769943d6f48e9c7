package cli

import (
	"testing"
	"time"
)

// TestPeriod reads durations with and without days (KR-12-18).
func TestPeriod(t *testing.T) {
	cases := map[string]struct {
		want time.Duration
		bad  bool
	}{
		"1d":           {want: 24 * time.Hour},
		"1d12h":        {want: 36 * time.Hour},
		"0d":           {},
		"90m":          {want: 90 * time.Minute},
		"24h":          {want: 24 * time.Hour},
		"-1h":          {want: -time.Hour}, // which --for refuses, as it is not in the future
		"":             {bad: true},
		"d":            {bad: true},
		"-1d":          {bad: true},
		"1.5d":         {bad: true},
		"1d-2h":        {bad: true},
		"1h1d":         {bad: true},
		"1w":           {bad: true},
		"4000000000d":  {bad: true},
		"106750d9999h": {bad: true},
	}
	for in, tc := range cases {
		var p period
		err := p.Set(in)
		if (err != nil) != tc.bad || time.Duration(p) != tc.want {
			t.Errorf("%q: %s, error %v; want %s, bad %t", in, time.Duration(p), err, tc.want, tc.bad)
		}
	}
}
