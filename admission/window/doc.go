// Package window computes whether a window of time is open, and when that changes.
//
// Schedules are cron expressions as robfig/cron parses them, in an IANA time zone. The times at which
// they start are computed here, by the clock on the wall in that zone: a window at a time that the
// clock skips starts when it has skipped it, and one at a time that is repeated starts both times
// (KR-14-13). The parser's own schedules omit the former, and starts after a change of less than an
// hour.
//
// Nothing is read but the arguments, and no search is longer than a bounded number of steps.
package window
