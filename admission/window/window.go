package window

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// horizon in years: what does not open within them never does.
	horizon = 5
	// maxSteps of one search. Each is a day or more of a schedule without gaps.
	maxSteps = 20_000
)

// reference is the time from which it is examined whether windows ever open: before a leap day.
var reference = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// parser of the five standard fields.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Error in Windows, with the field below them.
type Error struct {
	Field, Message string
}

// Windows in which approved changes may pass. They are never modified and safe for
// concurrent use; nil is always open.
type Windows struct {
	zone        *time.Location
	allow, deny []*period
}

// State of Windows at a time.
type State struct {
	Open bool
	// Until is when that may change; the zero time for never. Of closed Windows it is when they open.
	Until time.Time
}

// Compile compiles Windows. With errors they are nil, and must not be taken for Windows that are open.
func Compile(w *v1alpha1.ApprovalWindows) (*Windows, []Error) {
	var errs []Error
	fail := func(field, format string, args ...any) {
		errs = append(errs, Error{field, fmt.Sprintf(format, args...)})
	}
	zone, err := zoneOf(w.TimeZone)
	if err != nil {
		fail("timeZone", "%v", err)
		zone = time.UTC
	}
	out := &Windows{zone: zone}
	compile := func(list string, in []v1alpha1.ApprovalWindow) (periods []*period) {
		for i, e := range in {
			at := fmt.Sprintf("%s[%d]", list, i)
			s, err := parse(e.Schedule)
			if err != nil {
				fail(at+".schedule", "%q: %v", e.Schedule, err)
			}
			if e.Duration.Duration <= 0 {
				fail(at+".duration", "must be more than 0, not %s", e.Duration.Duration)
			}
			if err == nil && e.Duration.Duration > 0 {
				periods = append(periods, newPeriod(s, zone, e.Duration.Duration))
			}
		}
		return periods
	}
	out.allow, out.deny = compile("allow", w.Allow), compile("deny", w.Deny)
	switch {
	case len(w.Allow)+len(w.Deny) == 0:
		fail("allow", "give at least one of allow and deny")
	case len(errs) == 0:
		if s := out.At(reference); !s.Open && s.Until.IsZero() {
			fail("deny", "no window ever opens: these cover all that allow gives")
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, nil
}

// zoneOf returns the time zone of a name; UTC for "".
func zoneOf(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("%q is no IANA time zone", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no IANA time zone", name)
	}
	return zone, nil
}

// parse parses a schedule, which must have a next time.
func parse(text string) (*cron.SpecSchedule, error) {
	if strings.Contains(text, "=") { // the parser would read TZ=
		return nil, fmt.Errorf("the time zone is in timeZone")
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller names the field.
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("give five fields: minute, hour, day of month, month, day of week")
	}
	s.Location = time.UTC
	if s.Next(reference).IsZero() {
		return nil, fmt.Errorf("that never comes")
	}
	return s, nil
}

// At returns the State at a time: open in the periods of allow, at any time where allow has no periods, and
// never in the periods of deny (KR-14-13).
func (w *Windows) At(t time.Time) State {
	if w == nil {
		return State{Open: true}
	}
	if opens := w.opening(t); !opens.Equal(t) {
		return State{Until: opens}
	}
	return State{Open: true, Until: w.closing(t)}
}

// opening returns the first time from t on at which they are open; the zero time for never.
func (w *Windows) opening(t time.Time) time.Time {
	limit := t.AddDate(horizon, 0, 0)
	for range maxSteps {
		switch denied, until, _ := union(w.deny, t); {
		case t.After(limit):
			return time.Time{}
		case denied:
			t = until
			continue
		case len(w.allow) == 0:
			return t
		}
		switch allowed, _, starts := union(w.allow, t); {
		case allowed:
			return t
		case starts.IsZero():
			return time.Time{}
		default:
			t = starts
		}
	}
	return time.Time{}
}

// closing returns the first time after t, at which they are open, at which they may not be; the zero time for
// never.
func (w *Windows) closing(t time.Time) time.Time {
	_, _, denied := union(w.deny, t)
	if len(w.allow) == 0 {
		return denied
	}
	limit := t.AddDate(horizon, 0, 0)
	for range maxSteps {
		allowed, until, _ := union(w.allow, t)
		switch {
		case !allowed, !denied.IsZero() && !t.Before(denied):
			return earlier(t, denied)
		case t.After(limit):
			return denied
		}
		t = until
	}
	return earlier(t, denied)
}

// union reports whether one of the periods covers a time, and until when at least; else when one next
// starts, zero for never.
func union(periods []*period, t time.Time) (in bool, until, starts time.Time) {
	for _, p := range periods {
		covered, end, start := p.covers(t)
		if covered && end.After(until) {
			in, until = true, end
		}
		starts = earlier(starts, start)
	}
	return in, until, starts
}

// earlier returns the earlier of two times; the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Why returns why closed Windows hold a change back at a time, as a clause; "" where they are open.
func (w *Windows) Why(now time.Time) string {
	switch s := w.At(now); {
	case s.Open:
		return ""
	case s.Until.IsZero():
		return "no window ever opens"
	default:
		return "window opens " + w.text(s.Until, now)
	}
}

// When returns when changes may pass, as seen at a time, as a clause: now and until when, or when that begins; "" for
// at any time.
func (w *Windows) When(at time.Time) string {
	switch s := w.At(at); {
	case w == nil:
		return ""
	case !s.Open:
		return w.Why(at)
	case s.Until.IsZero():
		return "window is open"
	default:
		return "window is open until " + w.text(s.Until, at)
	}
}

// text returns a time as text, in the zone of the windows: with the date where the day of the week may
// be misunderstood.
func (w *Windows) text(t, now time.Time) string {
	switch at := t.In(w.zone); {
	case t.Sub(now) < 6*24*time.Hour:
		return at.Format("Mon 15:04 MST")
	case at.Year() == now.In(w.zone).Year():
		return at.Format("Mon 2 Jan 15:04 MST")
	default:
		return at.Format("Mon 2 Jan 2006 15:04 MST")
	}
}
