package cli

import (
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
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
	d, err := v1alpha1.ParsePeriod(value)
	if err != nil {
		return err
	}
	*p = period(d)
	return nil
}
