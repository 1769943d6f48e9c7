package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// period is a flag: a duration as time.ParseDuration reads it, or one with days
// before it, as in 1d or 1d12h. A day is 24 hours (KR-12-18).
type period time.Duration

// String returns the duration without days.
func (p *period) String() string { return time.Duration(*p).String() }

// Type returns the type of the flag, as pflag calls a duration.
func (p *period) Type() string { return "duration" }

// Set sets the period; an error where the value is no period, or too long for one.
func (p *period) Set(value string) error {
	d, err := v1alpha1.ParsePeriod(value)
	if err != nil {
		return err
	}
	*p = period(d)
	return nil
}

// endOptions are --for and --until of what ends by itself.
type endOptions struct {
	period time.Duration
	until  string
	// expires is when it ends, in whole seconds, UTC; nil for never.
	expires *metav1.Time
}

// add adds the flags; forHelp is the help text of --for.
func (o *endOptions) add(fl *pflag.FlagSet, forHelp string) {
	fl.Var((*period)(&o.period), "for", forHelp)
	fl.StringVar(&o.until, "until", "", "Until when, as in 2026-01-05T09:30:00Z.")
}

// check checks the flags, and computes the end of what begins now.
func (o *endOptions) check(what string, now time.Time) error {
	at := now.Add(o.period)
	switch {
	case o.period != 0 && o.until != "":
		return usageError{errors.New("--for and --until exclude each other; give one")}
	case o.period == 0 && o.until == "":
		return nil
	case o.until != "":
		var err error
		if at, err = time.Parse(time.RFC3339, o.until); err != nil {
			return usageError{fmt.Errorf("--until must be a time as in 2026-01-05T09:30:00Z, not %q", o.until)}
		}
	}
	if !at.After(now) {
		return usageError{fmt.Errorf("the %s would end immediately: %s is not in the future", what, at.UTC().Format(time.RFC3339))}
	}
	o.expires = &metav1.Time{Time: at.UTC().Truncate(time.Second)}
	return nil
}
