package clock

import (
	"testing"
	"time"
)

// machine whose clock is behind that of the API server by skew, and which reads it n times, at any time of a second and with any delay.
func machine(skew time.Duration, n int) *process {
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	p := &process{origin: start}
	for i := range n {
		sent := start.Add(time.Duration(i) * 1370 * time.Millisecond)
		answered := sent.Add(time.Duration(i%7) * 10 * time.Millisecond)
		p.observe(answered.Add(skew).Truncate(time.Second), sent, answered.Add(20*time.Millisecond))
	}
	return p
}

// TestObserve covers KR-13-25: a skew is found to within some milliseconds, and clocks that agree are left alone.
func TestObserve(t *testing.T) {
	for _, skew := range []time.Duration{0, 300 * time.Millisecond, 20 * time.Second, -20 * time.Second, 2 * time.Minute, -2 * time.Minute} {
		if got := machine(skew, 1).bounds.offset() - skew; got.Abs() > time.Second {
			t.Errorf("skew %s: after one answer it is off by %s", skew, got)
		}
		got := machine(skew, 40).bounds.offset() - skew
		if got.Abs() > 100*time.Millisecond || skew == 0 && got != 0 {
			t.Errorf("skew %s: off by %s", skew, got)
		}
	}
}

// TestObserveClockThatIsSet: an answer that contradicts the others counts alone, one that took long shows little, and
// one that arrived before it was sent nothing.
func TestObserveClockThatIsSet(t *testing.T) {
	p := machine(0, 40)
	sent := p.bounds.at.Add(time.Second)
	p.observe(sent.Add(time.Minute), sent.Add(-time.Hour), sent)
	if got := p.bounds.offset(); got != 0 && got < 59*time.Second {
		t.Errorf("after an answer that took an hour the offset is %s", got)
	}
	p = machine(0, 40)
	p.observe(sent.Add(time.Minute).Truncate(time.Second), sent, sent.Add(time.Millisecond))
	if got := p.bounds.offset(); (got - time.Minute).Abs() > time.Second {
		t.Errorf("after the API server's clock was set by a minute the offset is %s", got)
	}
	before := p.bounds
	p.observe(sent, sent.Add(time.Hour), sent)
	if p.bounds != before {
		t.Error("an answer arrived before it was sent, and counts")
	}
}

// TestNow is this machine's time before an API server answers, and then the API server's.
func TestNow(t *testing.T) {
	p := &process{origin: local()}
	if _, known := p.skew(); known || time.Since(p.now()).Abs() > time.Minute {
		t.Error("the time is known, or wrong, before an answer")
	}
	at := p.local()
	p.observe(at.Add(-2*time.Minute).Truncate(time.Second), at, at)
	if got := time.Since(p.now()) - 2*time.Minute; got.Abs() > 10*time.Second {
		t.Errorf("the time is %s off", got)
	}
	if skew, known := p.skew(); !known || (skew+2*time.Minute).Abs() > 10*time.Second {
		t.Errorf("the skew is %s", skew)
	}
	if Since(Now()) > time.Minute || Local().IsZero() {
		t.Error("the clock of this process is wrong")
	}
}
