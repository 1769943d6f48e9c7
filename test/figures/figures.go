// Package figures measures the processes of Kausality for the results of campaigns: their memory, and how long decisions took.
package figures

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kausality-io/function-kausality/internal/manifests"
	"github.com/kausality-io/function-kausality/test/controlplane"
)

// Timeout of the webhook configuration, and the highest bound of the histogram of decisions.
const Timeout = time.Duration(manifests.DefaultTimeoutSeconds) * time.Second

// histogram of how long decisions took, in seconds.
const histogram = "kausality_decision_seconds"

// Memory adds to figures the most memory that a process has used, in MiB. It returns it in KiB.
func Memory(figures map[string]string, name string, p *controlplane.Process) (kib int, err error) {
	if kib, err = p.Memory(controlplane.Peak); err != nil {
		return 0, err
	}
	figures[name+" MiB"] = strconv.Itoa(kib >> 10)
	return kib, nil
}

// Decisions adds to figures how many decisions the webhook with the metrics has made since it started, how many milliseconds the slowest of
// those within the timeout took at most, by the bounds of the histogram, and how many took longer, where any did. It returns the latter.
func Decisions(ctx context.Context, figures map[string]string, metrics string) (late uint64, err error) {
	m, err := controlplane.ReadMetrics(ctx, metrics)
	if err != nil {
		return 0, err
	}
	one := m[histogram].GetMetric()
	if len(one) != 1 {
		return 0, fmt.Errorf("%s has no %s", metrics, histogram)
	}
	all, within, slowest := one[0].GetHistogram().GetSampleCount(), uint64(0), time.Duration(0)
	for _, b := range one[0].GetHistogram().GetBucket() {
		if bound := b.GetUpperBound(); bound <= Timeout.Seconds() && b.GetCumulativeCount() > within {
			within, slowest = b.GetCumulativeCount(), time.Duration(bound*float64(time.Second))
		}
	}
	if all == 0 {
		return 0, errors.New("there are no decisions")
	}
	figures["decisions"], figures["slowest ms"] = strconv.FormatUint(all, 10), strconv.FormatInt(slowest.Milliseconds(), 10)
	if late = all - within; late > 0 {
		figures["late"] = strconv.FormatUint(late, 10)
	}
	return late, nil
}
