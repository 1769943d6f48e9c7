package window

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// windowsOf a zone, with windows as in "0 9 * * 1-4 for 8h", those that begin with ! denied.
func windowsOf(zone string, windows ...string) *v1alpha1.ApprovalWindows {
	out := &v1alpha1.ApprovalWindows{TimeZone: zone}
	for _, w := range windows {
		text, denied := strings.CutPrefix(w, "!")
		schedule, duration, _ := strings.Cut(text, " for ")
		d, err := time.ParseDuration(duration)
		if err != nil {
			panic(err)
		}
		one := v1alpha1.ApprovalWindow{Schedule: schedule, Duration: metav1.Duration{Duration: d}}
		if denied {
			out.Deny = append(out.Deny, one)
		} else {
			out.Allow = append(out.Allow, one)
		}
	}
	return out
}

func compiled(t testing.TB, zone string, windows ...string) *Windows {
	t.Helper()
	w, errs := Compile(windowsOf(zone, windows...))
	require.Empty(t, errs)
	return w
}

// When windows are open, on ordinary days and where the clock changes (KR-14-13).
func TestAt(t *testing.T) {
	const berlin, newYork, lordHowe = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
	cases := map[string]struct {
		reason  string
		zone    string
		windows []string
		// at a time, with the offset of the zone.
		at    string
		open  bool
		until string
	}{
		"Inside": {zone: berlin, windows: []string{"0 9 * * 1-4 for 8h"}, at: "2026-11-23T10:00:00+01:00", open: true, until: "2026-11-23T17:00:00+01:00"},
		"FirstTime": {reason: "the beginning belongs to it", zone: berlin, windows: []string{"0 9 * * 1-4 for 8h"},
			at: "2026-11-23T09:00:00+01:00", open: true, until: "2026-11-23T17:00:00+01:00"},
		"Before": {reason: "up to then it is closed", zone: berlin, windows: []string{"0 9 * * 1-4 for 8h"},
			at: "2026-11-23T08:59:59.9+01:00", until: "2026-11-23T09:00:00+01:00"},
		"End": {reason: "the end does not", zone: berlin, windows: []string{"0 9 * * 1-4 for 8h"},
			at: "2026-11-23T17:00:00+01:00", until: "2026-11-24T09:00:00+01:00"},
		"Weekend": {zone: berlin, windows: []string{"0 9 * * 1-4 for 8h"}, at: "2026-11-26T17:00:00+01:00", until: "2026-11-30T09:00:00+01:00"},
		"Denied": {reason: "a deny beats an allow", zone: berlin, windows: []string{"0 9 * * * for 8h", "!0 0 20 12 * for 336h"},
			at: "2026-12-24T10:00:00+01:00", until: "2027-01-03T09:00:00+01:00"},
		"Until": {reason: "the deny ends what is open", zone: berlin, windows: []string{"0 9 * * * for 8h", "!0 12 * * * for 1h"},
			at: "2026-11-23T10:00:00+01:00", open: true, until: "2026-11-23T12:00:00+01:00"},
		"Again": {reason: "after it the rest of the window is open", zone: berlin, windows: []string{"0 9 * * * for 8h", "!0 12 * * * for 1h"},
			at: "2026-11-23T12:30:00+01:00", until: "2026-11-23T13:00:00+01:00"},
		"DenyAlone": {reason: "without allow it is open at any other time", zone: berlin, windows: []string{"!0 0 20 12 * for 336h"},
			at: "2026-11-23T10:00:00+01:00", open: true, until: "2026-12-20T00:00:00+01:00"},
		"Always": {reason: "windows that meet are one", zone: berlin, windows: []string{"0 0 * * * for 25h"}, at: "2026-11-23T10:00:00+01:00", open: true},
		"EachMinute": {reason: "a schedule without gaps", zone: berlin, windows: []string{"* * * * * for 1m", "!0 0 24 12 * for 24h"},
			at:   "2026-11-23T10:00:30+01:00",
			open: true, until: "2026-12-24T00:00:00+01:00"},
		"LeapDay": {zone: "", windows: []string{"0 0 29 2 * for 24h"}, at: "2026-11-23T10:00:00Z", until: "2028-02-29T00:00:00Z"},

		"SpringOver": {reason: "it lasts for its duration, not until what the clock shows", zone: berlin, windows: []string{"0 1 * * * for 2h"},
			at: "2026-03-29T01:30:00+01:00", open: true, until: "2026-03-29T04:00:00+02:00"},
		"SpringSkipped": {reason: "what begins at a time that is skipped begins when it is skipped", zone: berlin, windows: []string{"30 2 * * * for 1h"},
			at: "2026-03-29T01:59:00+01:00", until: "2026-03-29T03:00:00+02:00"},
		"SpringSkippedDeny": {reason: "a deny is not omitted", zone: berlin, windows: []string{"!30 2 * * * for 1h"},
			at: "2026-03-29T03:30:00+02:00", until: "2026-03-29T04:00:00+02:00"},
		"SpringHourly": {reason: "what comes each hour has not been skipped", zone: berlin, windows: []string{"30 * * * * for 10m"},
			at: "2026-03-29T03:00:00+02:00", until: "2026-03-29T03:30:00+02:00"},
		"AutumnTwice": {reason: "what begins at a time that is repeated begins both times", zone: berlin, windows: []string{"30 2 * * * for 30m"},
			at: "2026-10-25T02:59:00+02:00", open: true, until: "2026-10-25T02:00:00+01:00"},
		"AutumnSecond": {reason: "the second time", zone: berlin, windows: []string{"30 2 * * * for 30m"},
			at: "2026-10-25T02:29:00+01:00", until: "2026-10-25T02:30:00+01:00"},
		"AutumnOver": {reason: "its duration", zone: berlin, windows: []string{"0 1 * * * for 3h"},
			at: "2026-10-25T01:00:00+02:00", open: true, until: "2026-10-25T03:00:00+01:00"},
		"AutumnNine": {reason: "the next day is 25 hours away", zone: berlin, windows: []string{"0 9 * * * for 1h"},
			at: "2026-10-24T10:00:00+02:00", until: "2026-10-25T09:00:00+01:00"},
		"AutumnEachMinute": {reason: "without gaps on a day of 25 hours", zone: berlin, windows: []string{"* * * * * for 1m", "!0 12 25 10 * for 1h"},
			at: "2026-10-25T00:00:00+02:00", open: true, until: "2026-10-25T12:00:00+01:00"},

		"NewYorkSpring": {zone: newYork, windows: []string{"30 2 * * * for 1h"}, at: "2026-03-08T01:00:00-05:00", until: "2026-03-08T03:00:00-04:00"},
		"NewYorkAutumn": {zone: newYork, windows: []string{"30 1 * * * for 30m"}, at: "2026-11-01T01:00:00-05:00", until: "2026-11-01T01:30:00-05:00"},
		"LordHoweSpring": {reason: "half an hour is skipped", zone: lordHowe, windows: []string{"15 2 * * * for 1h"},
			at: "2026-10-04T01:00:00+10:30", until: "2026-10-04T02:30:00+11:00"},
		"LordHoweAutumn": {reason: "half an hour is repeated", zone: lordHowe, windows: []string{"45 1 * * * for 10m"},
			at: "2026-04-05T01:56:00+11:00", until: "2026-04-05T01:45:00+10:30"},
		"LordHoweAutumn2": {reason: "which the schedules of the parser omit", zone: lordHowe, windows: []string{"0 2 * * * for 1h"},
			at: "2026-04-05T01:45:00+10:30", until: "2026-04-05T02:00:00+10:30"},
		"LordHoweNotTwice": {reason: "02:00 comes once", zone: lordHowe, windows: []string{"0 2 * * * for 10m"},
			at: "2026-04-05T01:59:00+11:00", until: "2026-04-05T02:00:00+10:30"},
		"MidnightSkipped": {reason: "in Cuba the day begins at one", zone: "America/Havana", windows: []string{"0 0 * * * for 1h"},
			at: "2026-03-07T23:30:00-05:00", until: "2026-03-08T01:00:00-04:00"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339Nano, tc.at)
			require.NoError(t, err)
			got := compiled(t, tc.zone, tc.windows...).At(at)
			require.Equal(t, tc.open, got.Open, tc.reason)
			if tc.until == "" {
				require.Zero(t, got.Until, tc.reason)
				return
			}
			until, err := time.Parse(time.RFC3339, tc.until)
			require.NoError(t, err)
			require.True(t, until.Equal(got.Until), "%s: want %s, got %s", tc.reason, until, got.Until.In(until.Location()))
		})
	}
}

// What is refused, each with its field (KR-14-14).
func TestCompile(t *testing.T) {
	cases := map[string]struct {
		windows *v1alpha1.ApprovalWindows
		want    string
	}{
		"Empty":     {windows: &v1alpha1.ApprovalWindows{TimeZone: "Europe/Berlin"}, want: "allow: give at least one of allow and deny"},
		"Zone":      {windows: windowsOf("Europe/Bonn", "0 9 * * * for 1h"), want: `timeZone: "Europe/Bonn" is no IANA time zone`},
		"Local":     {windows: windowsOf("Local", "0 9 * * * for 1h"), want: `timeZone: "Local" is no IANA time zone`},
		"Schedule":  {windows: windowsOf("", "0 9 * * * for 1h", "0 25 * * * for 1h"), want: `allow[1].schedule: "0 25 * * *"`},
		"Six":       {windows: windowsOf("", "0 0 9 * * * for 1h"), want: "allow[0].schedule"},
		"Every":     {windows: windowsOf("", "@every 1h for 1h"), want: "allow[0].schedule"},
		"ZoneThere": {windows: windowsOf("", "TZ=x for 1h"), want: "the time zone is in timeZone"},
		"Duration":  {windows: windowsOf("", "!0 9 * * * for 0s"), want: "deny[0].duration: must be more than 0, not 0s"},
		"Negative":  {windows: windowsOf("", "0 9 * * * for -1h"), want: "allow[0].duration: must be more than 0, not -1h0m0s"},
		"Never":     {windows: windowsOf("", "0 0 30 2 * for 1h"), want: `allow[0].schedule: "0 0 30 2 *": that never comes`},
		"Covered":   {windows: windowsOf("", "0 9 * * * for 1h", "!0 0 * * * for 24h"), want: "deny: no window ever opens"},
		"CoveredEachMinute": {windows: windowsOf("Europe/Berlin", "!* * * * * for 1m"),
			want: "deny: no window ever opens"},
		"CoveredTogether": {windows: windowsOf("Europe/Berlin", "0 9 * * * for 8h", "!0 0 * * 1-5 for 24h", "!0 0 * * 6,0 for 24h"),
			want: "deny: no window ever opens"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, errs := Compile(tc.windows)
			require.Nil(t, w)
			require.Len(t, errs, 1)
			require.Contains(t, errs[0].Field+": "+errs[0].Message, tc.want)
		})
	}
}

// The text names the time as the zone of the windows has it, with a date where it is far away (KR-14-13).
func TestWhy(t *testing.T) {
	at := time.Date(2026, time.November, 20, 18, 0, 0, 0, time.UTC)
	require.Empty(t, (*Windows)(nil).Why(at))
	require.Empty(t, compiled(t, "", "0 18 * * * for 1h").Why(at))
	require.Equal(t, "window opens Mon 09:00 CET", compiled(t, "Europe/Berlin", "0 9 * * 1-4 for 8h").Why(at))
	require.Equal(t, "window opens Thu 24 Dec 09:00 CET", compiled(t, "Europe/Berlin", "0 9 24 12 * for 8h").Why(at))
	require.Equal(t, "window opens Tue 29 Feb 2028 00:00 UTC", compiled(t, "", "0 0 29 2 * for 8h").Why(at))
	never := &Windows{zone: time.UTC, deny: []*period{newPeriod(mustParse(t, "* * * * *"), time.UTC, time.Minute)}}
	require.Equal(t, "no window ever opens", never.Why(at))
}

func mustParse(t testing.TB, text string) *cron.SpecSchedule {
	t.Helper()
	s, err := parse(text)
	require.NoError(t, err)
	return s
}

// naive is when a schedule starts, minute by minute, by what the clock shows.
func naive(t *testing.T, schedule string, zone *time.Location, from, to time.Time) []time.Time {
	t.Helper()
	s := mustParse(t, schedule)
	has := func(wall time.Time) bool { return s.Next(wall.Add(-time.Second)).Equal(wall) }
	var out []time.Time
	_, was := from.Add(-time.Minute).In(zone).Zone()
	for m := from; m.Before(to); m = m.Add(time.Minute) {
		_, now := m.In(zone).Zone()
		wall := m.Add(time.Duration(now) * time.Second)
		starts := has(wall)
		for skipped := m.Add(time.Duration(was) * time.Second); s.Hour&starBit == 0 && skipped.Before(wall); skipped = skipped.Add(time.Minute) {
			starts = starts || has(skipped)
		}
		if starts {
			out = append(out, m)
		}
		was = now
	}
	return out
}

// Open and closed are what a look at each minute finds, around the changes of the clock (KR-14-13).
func TestAtEachMinute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	zones := map[string][]string{
		"Europe/Berlin":       {"2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"},
		"America/New_York":    {"2026-03-07T12:00:00Z", "2026-10-31T12:00:00Z"},
		"Australia/Lord_Howe": {"2026-10-03T00:00:00Z", "2026-04-04T00:00:00Z"},
		"Asia/Kolkata":        {"2026-03-28T12:00:00Z"},
	}
	one := func() string {
		return fmt.Sprintf("%s %s * * * for %s", pick("*", "0", "30", "*/20", "10-40", "45"), pick("*", "2", "1-3", "*/3", "0"),
			pick("1m", "20m", "30m", "1h", "90m", "5h"))
	}
	for zone, edges := range zones {
		for _, edge := range edges {
			for range 4 {
				windows := []string{one(), "!" + one()}
				if r.IntN(3) == 0 {
					windows = windows[1:]
				}
				w, errs := Compile(windowsOf(zone, windows...))
				if len(errs) > 0 {
					continue // it never opens
				}
				from, err := time.Parse(time.RFC3339, edge)
				require.NoError(t, err)
				compareEachMinute(t, w, windowsOf(zone, windows...), from, from.Add(36*time.Hour))
			}
		}
	}
}

func compareEachMinute(t *testing.T, w *Windows, spec *v1alpha1.ApprovalWindows, from, to time.Time) {
	t.Helper()
	covered := func(list []v1alpha1.ApprovalWindow) map[time.Time]bool {
		out := map[time.Time]bool{}
		for _, e := range list {
			for _, s := range naive(t, e.Schedule, w.zone, from.Add(-12*time.Hour), to) {
				for m := s; m.Before(s.Add(e.Duration.Duration)); m = m.Add(time.Minute) {
					out[m] = true
				}
			}
		}
		return out
	}
	allowed, denied := covered(spec.Allow), covered(spec.Deny)
	open := func(m time.Time) bool { return (len(spec.Allow) == 0 || allowed[m]) && !denied[m] }
	for m := from; m.Before(to); m = m.Add(time.Minute) {
		got := w.At(m)
		require.Equal(t, open(m), got.Open, "%v at %s", spec, m.In(w.zone))
		// It stays so until then, and where it is closed it opens then.
		for n := m; n.Before(to) && (got.Until.IsZero() || n.Before(got.Until)); n = n.Add(7 * time.Minute) {
			require.Equal(t, open(m), open(n), "%v at %s until %s", spec, m.In(w.zone), got.Until.In(w.zone))
		}
		if !got.Open && got.Until.Before(to) {
			require.True(t, open(got.Until.UTC()), "%v at %s opens %s", spec, m.In(w.zone), got.Until.In(w.zone))
		}
	}
}

// Neither what never opens nor what is always open takes long.
func BenchmarkAt(b *testing.B) {
	at := time.Date(2026, time.November, 20, 18, 0, 0, 0, time.UTC)
	for name, w := range map[string]*Windows{
		"Week":       compiled(b, "Europe/Berlin", "0 9 * * 1-4 for 8h", "!0 0 20 12 * for 336h"),
		"EachMinute": compiled(b, "Europe/Berlin", "* * * * * for 1m"),
		"Never":      {zone: time.UTC, deny: []*period{newPeriod(mustParse(b, "* * * * *"), time.UTC, time.Minute)}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.At(at)
			}
		})
	}
}
