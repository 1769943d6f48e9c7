package window

import (
	"math/bits"
	"time"

	"github.com/robfig/cron/v3"
)

// starBit of the fields of a cron.SpecSchedule: the field is "*".
const starBit = 1 << 63

// period that begins by a schedule, and lasts for a duration.
type period struct {
	schedule *cron.SpecSchedule // in UTC: it is evaluated on local wall-clock times that are read as UTC
	zone     *time.Location
	duration time.Duration

	// lastOfHour is the last minute of an hour at which it starts, and lastOfDay of a day. hourly: the periods that start
	// in an hour have no gaps; daily: those that start in a day have no gaps.
	lastOfHour, lastOfDay time.Duration
	hourly, daily         bool
}

func newPeriod(s *cron.SpecSchedule, zone *time.Location, d time.Duration) *period {
	s.Location = time.UTC
	p := &period{schedule: s, zone: zone, duration: d}
	firstMinute, lastMinute, between := spread(s.Minute, time.Minute)
	_, lastHour, hours := spread(s.Hour, time.Hour)
	p.lastOfHour, p.lastOfDay = lastMinute, lastHour+lastMinute
	p.hourly = between <= d
	p.daily = p.hourly && hours-(lastMinute-firstMinute) <= d
	return p
}

// spread returns the spread of the bits of a field: the first, the last, and the most that is between
// two of them, in units.
func spread(field uint64, unit time.Duration) (first, last, between time.Duration) {
	field &^= starBit
	at := -1
	for field != 0 {
		next := bits.TrailingZeros64(field)
		if at < 0 {
			first = time.Duration(next) * unit
		} else {
			between = max(between, time.Duration(next-at)*unit)
		}
		at = next
		field &= field - 1
	}
	return first, time.Duration(max(at, 0)) * unit, between
}

// next returns the next start after a time; the zero time where it does not start within five years.
func (p *period) next(after time.Time) time.Time {
	limit := after.AddDate(horizon, 0, 0)
	wall, offset, end := p.onTheWall(after)
	for {
		w := p.schedule.Next(wall)
		if w.IsZero() {
			return time.Time{}
		}
		start := w.Add(-offset)
		if end.IsZero() || start.Before(end) {
			return start
		}
		if end.After(limit) {
			return time.Time{}
		}
		changed, then, following := p.onTheWall(end)
		if w.Before(changed) && p.schedule.Hour&starBit == 0 {
			return end // the clock skips it
		}
		wall, offset, end = changed.Add(-time.Second), then, following
	}
}

// onTheWall returns what the clock shows at a time, as a time in UTC, with its offset, and when that changes; zero for
// never.
func (p *period) onTheWall(t time.Time) (wall time.Time, offset time.Duration, end time.Time) {
	local := t.In(p.zone)
	_, seconds := local.Zone()
	_, end = local.ZoneBounds()
	offset = time.Duration(seconds) * time.Second
	return t.UTC().Add(offset), offset, end
}

// covers reports whether a time is in the period, and until when at least; else when the period next starts, zero for never.
func (p *period) covers(t time.Time) (in bool, until, starts time.Time) {
	start := p.next(t.Add(-p.duration))
	if start.IsZero() || start.After(t) {
		return false, time.Time{}, start
	}
	return true, p.run(start), time.Time{}
}

// run returns the time until which the period that starts at a time lasts at least, together with those that
// start before its end on that day.
func (p *period) run(start time.Time) time.Time {
	wall, _, end := p.onTheWall(start)
	last := start
	switch {
	case p.daily:
		last = start.Add(p.lastOfDay - wall.Sub(wall.Truncate(24*time.Hour)))
	case p.hourly:
		last = start.Add(p.lastOfHour - wall.Sub(wall.Truncate(time.Hour)))
	}
	changed, _ := start.In(p.zone).ZoneBounds()
	if last.Before(start) || start.Equal(changed) || !end.IsZero() && !last.Before(end) {
		last = start // the clock changes on that day
	}
	return last.Add(p.duration)
}
