package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// period is a flag: a duration as time.ParseDuration reads it, or one with days
// before it, as in 1d or 1d12h. A day is 24 hours (KR-12-18).
type period time.Duration

// String is the duration without days.
func (p *period) String() string { return time.Duration(*p).String() }

// Type of the flag, as pflag calls a duration.
func (p *period) Type() string { return "duration" }

// Set the period; an error where the value is no period, or too long for one.
func (p *period) Set(value string) error {
	const day = 24 * time.Hour
	days, rest, has := strings.Cut(value, "d")
	if !has {
		days, rest = "0", value
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil {
		return fmt.Errorf("must be a period as in 1d, 1d12h or 90m, not %q", value)
	}
	out := time.Duration(0)
	if rest != "" {
		if out, err = time.ParseDuration(rest); err != nil || has && out < 0 {
			return fmt.Errorf("must be a period as in 1d, 1d12h or 90m, not %q", value)
		}
	} else if !has {
		return fmt.Errorf("must be a period as in 1d, 1d12h or 90m, not %q", value)
	}
	if n > uint64(math.MaxInt64/day)-1 || out > math.MaxInt64-time.Duration(n)*day {
		return fmt.Errorf("%q is too long", value)
	}
	*p = period(time.Duration(n)*day + out)
	return nil
}
