package records

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/pause"
	"github.com/kausality-io/function-kausality/internal/records/spool"
)

const (
	// queueCapacity is how many occurrences wait to be written. What is beyond that is lost and counted: a request must
	// not wait.
	queueCapacity = 4096
	// batchSize is how many occurrences are written at once, and linger how long one waits for others.
	batchSize = 128
	linger    = 20 * time.Millisecond
	// firstRetry is the time after which records are written again that could not be, as on a full disk; it doubles up to lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
	// flushTimeout bounds how long Close waits for the disk.
	flushTimeout = 5 * time.Second
)

// An Occurrence is something that records result from. It is not changed after it was added.
type Occurrence interface {
	// Records of the occurrence in a cluster; none is possible. Schema need not be set.
	Records(recordsv1alpha1.Cluster) []recordsv1alpha1.Record
}

// Spool is where a Recorder writes to. *spool.Spool implements it.
type Spool interface {
	// Append records: they are on disk when it returns nil.
	Append(records ...[]byte) error
	// Bytes on disk.
	Bytes() int64
}

// A Recorder writes the records of occurrences to a spool. Add is safe for concurrent use; a nil Recorder records nothing.
type Recorder struct {
	spool   Spool
	cluster func(context.Context) (recordsv1alpha1.Cluster, error)
	log     logr.Logger

	queue  chan Occurrence
	stop   chan struct{}
	done   chan struct{}
	closed sync.Once
	// lost are the occurrences since they were last logged.
	lost atomic.Int64
}

// New Recorder that runs until Close. cluster identifies the cluster; it is called until it returns no error.
func New(s Spool, cluster func(context.Context) (recordsv1alpha1.Cluster, error), log logr.Logger) *Recorder {
	r := &Recorder{
		spool: s, cluster: cluster, log: log,
		queue: make(chan Occurrence, queueCapacity), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go r.run()
	return r
}

// Enabled reports whether occurrences are recorded.
func (r *Recorder) Enabled() bool { return r != nil }

// Add adds an occurrence. It never blocks: where too many wait, this one is lost, and counted (KR-16-03).
func (r *Recorder) Add(o Occurrence) {
	if r == nil || o == nil {
		return
	}
	select {
	case r.queue <- o:
	default:
		r.lost.Add(1)
		lost.WithLabelValues("", lossQueue).Inc()
	}
}

// Close writes what was added before, and ends. What is added later is lost.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.closed.Do(func() { close(r.stop) })
	<-r.done
}

// run runs until Close.
func (r *Recorder) run() {
	defer close(r.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-r.stop
		time.AfterFunc(flushTimeout, cancel)
	}()
	of, ok := r.identify(ctx)
	for ok {
		batch := r.next()
		if len(batch) == 0 {
			return
		}
		raw, counts := r.encode(of, batch)
		if ok = r.write(ctx, raw); ok {
			for t, n := range counts {
				spooled.WithLabelValues(string(t)).Add(float64(n))
			}
		}
	}
	if n := len(r.queue); n > 0 {
		lost.WithLabelValues("", lossQueue).Add(float64(n))
		r.log.Info("the process ends with records that could not be written", "occurrences", n)
	}
}

// identify identifies the cluster; false where the Recorder is closed first.
func (r *Recorder) identify(ctx context.Context) (recordsv1alpha1.Cluster, bool) {
	pauses := retries()
	for {
		c, err := r.cluster(ctx)
		if err == nil {
			return c, true
		}
		r.log.Error(err, "cannot identify the cluster for records; it is tried again")
		if !pause.For(ctx, pauses.Step()) {
			return c, false
		}
	}
}

// next batch of occurrences: it waits for the first, and a moment for others. Empty once the Recorder is closed and nothing waits.
func (r *Recorder) next() []Occurrence {
	var batch []Occurrence
	select {
	case o := <-r.queue:
		batch = append(batch, o)
	case <-r.stop:
		select {
		case o := <-r.queue:
			batch = append(batch, o)
		default:
			return nil
		}
	}
	late := time.NewTimer(linger)
	defer late.Stop()
	for len(batch) < batchSize {
		select {
		case o := <-r.queue:
			batch = append(batch, o)
			continue
		default:
		}
		select {
		case o := <-r.queue:
			batch = append(batch, o)
		case <-late.C:
			return batch
		case <-r.stop:
			return batch
		}
	}
	return batch
}

// encode encodes the records of occurrences, with their number by type. One that is invalid is an error of the program: it is counted as
// lost, and costs no other.
func (r *Recorder) encode(of recordsv1alpha1.Cluster, batch []Occurrence) (out [][]byte, counts map[recordsv1alpha1.Type]int) {
	counts = map[recordsv1alpha1.Type]int{}
	for _, o := range batch {
		for _, record := range r.recordsOf(of, o) {
			raw, err := recordsv1alpha1.Encode(record)
			if err != nil {
				lost.WithLabelValues("", lossInvalid).Inc()
				r.log.Error(err, "cannot encode a record", "type", record.Type, "kind", record.Object.Kind)
				continue
			}
			counts[record.Type]++
			out = append(out, raw)
		}
	}
	return out, counts
}

// recordsOf returns the records of an occurrence; none where it panics.
func (r *Recorder) recordsOf(of recordsv1alpha1.Cluster, o Occurrence) (out []recordsv1alpha1.Record) {
	defer func() {
		if p := recover(); p != nil {
			lost.WithLabelValues("", lossInvalid).Inc()
			r.log.Error(fmt.Errorf("panic: %v", p), "cannot derive records", "stack", string(debug.Stack()))
			out = nil
		}
	}()
	return o.Records(of)
}

// write writes records, however long it takes: meanwhile others wait in the queue, and what it cannot hold is lost (KR-16-05). False where the Recorder
// was closed and the disk did not take them in time.
func (r *Recorder) write(ctx context.Context, raw [][]byte) bool {
	queueLength.Set(float64(len(r.queue)))
	defer func() { spoolBytes.Set(float64(r.spool.Bytes())) }()
	if n := r.lost.Swap(0); n > 0 {
		r.log.Info("records were lost: too many waited to be written", "occurrences", n)
	}
	pauses, stop := retries(), r.stop
	for {
		err := r.spool.Append(raw...)
		if err == nil {
			return true
		}
		r.log.Error(err, "cannot write records; it is tried again", "records", len(raw))
		slept := !errors.Is(err, spool.ErrClosed) && sleep(ctx, stop, pauses.Step())
		if !slept {
			lost.WithLabelValues("", lossQueue).Add(float64(len(raw)))
			return false
		}
		if stop != nil && r.closing() { // it is tried at once, and soon again: Close does not wait for long
			pauses, stop = retries(), nil
		}
	}
}

func retries() wait.Backoff {
	return wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.1, Steps: 1 << 20, Cap: lastRetry}
}

// closing reports whether Close was called.
func (r *Recorder) closing() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// sleep for a time that no clock changes, or until woken; false where the context ends first.
func sleep(ctx context.Context, wake <-chan struct{}, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
		return true
	case <-t.C:
		return true
	}
}
