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
