package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// What a handler may take on the allowed path.
const (
	handlerMedian = 300 * time.Microsecond
	handlerP99    = time.Millisecond
)

// decisions a replica made so far, by how long they took.
func (k *kausality) decisions(ctx context.Context) (*dto.Histogram, error) {
	const name = "kausality_decision_seconds"
	all, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	if m := all[name].GetMetric(); len(m) == 1 {
		return m[0].GetHistogram(), nil
	}
	return nil, fmt.Errorf("%s has no %s", k.metrics, name)
}

// within is the least bound of the histogram that a share of what happened between
// two readings did not exceed, and how many there were.
func within(before, after *dto.Histogram, share float64) (bound time.Duration, n uint64) {
	n = after.GetSampleCount() - before.GetSampleCount()
	for i, b := range after.GetBucket() {
		if float64(b.GetCumulativeCount()-before.GetBucket()[i].GetCumulativeCount()) >= share*float64(n) {
			return time.Duration(b.GetUpperBound() * float64(time.Second)), n
		}
	}
	return math.MaxInt64, n
}

func reportHandler(w io.Writer, before, after *dto.Histogram) {
	median, n := within(before, after, 0.5)
	p99, _ := within(before, after, 0.99)
	fmt.Fprintf(w, "\nkausality's handler, %d decisions by its own histogram: median at most %s (target %s), p99 at most %s (target %s)\n",
		n, median, handlerMedian, p99, handlerP99)
}
