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

// Patience returns how long to wait for what takes at most d on an idle machine: twice as long, and on
// a busy one as much longer as there are more processes that want to run than processors. A test is to
// fail because of what it sees, not because other programs run beside it.
func Patience(d time.Duration) time.Duration {
	return patience(d, factor(os.ReadFile))
}

func patience(d time.Duration, factor float64) time.Duration {
	return max(leastPatience*d, min(time.Duration(float64(d)*factor), mostWait))
}

// factor of Patience. Where the load is not known, four processes share each processor.
func factor(read func(string) ([]byte, error)) float64 {
	raw, err := read("/proc/loadavg")
	if err != nil {
		return 2 * leastPatience
	}

	first, _, _ := strings.Cut(string(raw), " ")

	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 2 * leastPatience
	}

	perCPU := load / float64(runtime.NumCPU())

	return math.Min(math.Max(leastPatience*perCPU, leastPatience), mostPatience)
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
