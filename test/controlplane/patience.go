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
	mostPatience  = 5
)

// Patience returns how long to wait for what takes at most d on an idle machine: twice as long, and on
// a busy one as much longer as there are more processes that want to run than processors. A test is to
// fail because of what it sees, not because other programs run beside it.
func Patience(d time.Duration) time.Duration {
	return time.Duration(float64(d) * factor(os.ReadFile))
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
