package controlplane

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// How much longer things may take than on a machine that does nothing else: at least and at most.
const (
	leastPatience = 2
	mostPatience  = 12
)

// mostWait is how long to wait at most, unless twice as long as on an idle machine is longer: what has not
// happened by then does not come late.
const mostWait = 5 * time.Minute

// Patience returns how long to wait for what takes at most d on an idle machine: twice as long, and on a busy one as much longer as
// there are processes that want to run and cannot. A test is to fail because of what it sees, not because other programs run beside it.
func Patience(d time.Duration) time.Duration {
	return patience(d, factor(os.ReadFile))
}

func patience(d time.Duration, factor float64) time.Duration {
	return max(leastPatience*d, min(time.Duration(float64(d)*factor), mostWait))
}

// pressures are where Linux has the share of time in which processes could not run for want of a processor: of the container, where it may
// have fewer of them than the machine, and of the machine.
var pressures = []string{"/sys/fs/cgroup/cpu.pressure", "/proc/pressure/cpu"}

// factor of Patience now, by the pressure of the last ten seconds, else by the load. Where neither is known, four processes share each processor.
func factor(read func(string) ([]byte, error)) float64 {
	stalled := -1.0

	for _, file := range pressures {
		if raw, err := read(file); err == nil {
			stalled = max(stalled, stalledOf(string(raw)))
		}
	}

	switch load, err := read("/proc/loadavg"); {
	case stalled >= 0: // who waits in nine of ten seconds runs in one of them
		return within(leastPatience / (1 - min(stalled, 1)))
	case err == nil:
		return loaded(string(load))
	default:
		return 2 * leastPatience
	}
}

// stalledOf a pressure file, as a part of one; less than zero where it has none.
func stalledOf(pressure string) float64 {
	_, rest, _ := strings.Cut(pressure, "some avg10=")
	percent, _, _ := strings.Cut(rest, " ")

	stalled, err := strconv.ParseFloat(percent, 64)
	if err != nil {
		return -1
	}

	return stalled / 100
}

// loaded is the factor of a load, as in /proc/loadavg.
func loaded(raw string) float64 {
	first, _, _ := strings.Cut(raw, " ")

	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 2 * leastPatience
	}

	return within(leastPatience * load / float64(runtime.NumCPU()))
}

// within the least and the most patience.
func within(factor float64) float64 {
	return math.Min(math.Max(factor, leastPatience), mostPatience)
}

// budget is what is left of the time that a wait may take on an idle machine. A busy machine uses it up more slowly, as busy as
// it is at each time: a wait that began while programs were built does not go on for minutes on a machine that is quiet again.
type budget struct {
	left time.Duration
	// at is when time was last spent.
	at time.Time
}

// spend the time until now at a factor of Patience, and report whether any is left.
func (b *budget) spend(now time.Time, factor float64) bool {
	b.left -= time.Duration(float64(now.Sub(b.at)) / factor)
	b.at = now

	return b.left > 0
}
