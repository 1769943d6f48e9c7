package v1alpha1

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Period is a duration of which days may be a part, as in 24h, 1d or 1d12h. A day is 24 hours (KR-12-18).
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="size(self) > 0 && self.matches('^[+-]?([0-9]+d)?([0-9]*[.]?[0-9]+(h|m|s|ms|us|ns))*$')",message="must be a period as in 24h, 90m, 1d or 1d12h"
type Period struct {
	time.Duration `json:"-"`
}

// UnmarshalJSON reads a period.
func (p *Period) UnmarshalJSON(raw []byte) error {
	text := ""
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("must be a period as in 24h, 1d or 1d12h: %w", err)
	}
	d, err := ParsePeriod(text)
	p.Duration = d
	return err
}

// MarshalJSON writes it without days, as a Duration is.
func (p Period) MarshalJSON() ([]byte, error) { return json.Marshal(p.Duration.String()) }

// ParsePeriod reads a duration as time.ParseDuration does, or one with days before it.
func ParsePeriod(value string) (time.Duration, error) {
	const day = 24 * time.Hour
	invalid := fmt.Errorf("must be a period as in 24h, 90m, 1d or 1d12h, not %q", value)
	days, rest, has := strings.Cut(value, "d")
	if !has {
		days, rest = "0", value
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || rest == "" && !has {
		return 0, invalid
	}
	out := time.Duration(0)
	if rest != "" {
		if out, err = time.ParseDuration(rest); err != nil || has && out < 0 {
			return 0, invalid
		}
	}
	if n > uint64(math.MaxInt64/day)-1 || out > math.MaxInt64-time.Duration(n)*day {
		return 0, fmt.Errorf("%q is too long", value)
	}
	return time.Duration(n)*day + out, nil
}
