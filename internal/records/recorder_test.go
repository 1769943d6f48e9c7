package records

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
)

var cluster = recordsv1alpha1.Cluster{Name: "prod", UID: "cluster-uid"}

func identified(context.Context) (recordsv1alpha1.Cluster, error) { return cluster, nil }

// numbered occurrence.
type numbered int

func (n numbered) Records(c recordsv1alpha1.Cluster) []recordsv1alpha1.Record {
	if n < 0 {
		panic("negative")
	}
	r := recordsv1alpha1.Record{
		Type: recordsv1alpha1.TypeIntent, Time: metav1.NewMicroTime(time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)), Cluster: c,
		Object: recordsv1alpha1.Object{APIVersion: "v1", Kind: "Part", Name: fmt.Sprint(int(n))},
	}
	r.ID = recordsv1alpha1.ID(c, r.Object, r.Type, r.Time.Time)
	return []recordsv1alpha1.Record{r}
}

// memory is a spool that fails while err is set and waits while it is held.
type memory struct {
	mu    sync.Mutex
	names []string
	err   error
	tries int
	held  chan struct{}
}

func (m *memory) Append(records ...[]byte) error {
	if m.held != nil {
		<-m.held
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries++
	if m.err != nil {
		return m.err
	}
	for _, raw := range records {
		r, err := recordsv1alpha1.Decode(raw)
		if err != nil {
			return err
		}
		m.names = append(m.names, r.Object.Name)
	}
	return nil
}

func (m *memory) Bytes() int64 { return 0 }

func (m *memory) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) tried() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tries
}

func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func TestRecorder(t *testing.T) {
	m := &memory{}
	r := New(m, identified, logr.Discard())
	for i := range 1000 {
		r.Add(numbered(i))
	}
	r.Close()
	r.Close()
	assert.Equal(t, names(1000), m.names, "Close writes what was added before, in its order")
	assert.Less(t, m.tries, 100, "one fsync is for many records")
}

func TestRecorderIsOff(t *testing.T) {
	var r *Recorder
	r.Add(numbered(1))
	r.Close()
	assert.False(t, r.Enabled())
}

// TestAddNeverWaits covers KR-16-03: a disk that does not answer delays nothing, and what is lost is counted.
func TestAddNeverWaits(t *testing.T) {
	m := &memory{held: make(chan struct{})}
	r := New(m, identified, logr.Discard())
	before := testutil.ToFloat64(lost.WithLabelValues("", lossQueue))
	const n = queueCapacity + 2*batchSize
	for i := range n { // the disk does not answer before all are added
		r.Add(numbered(i))
	}
	missing := int(testutil.ToFloat64(lost.WithLabelValues("", lossQueue)) - before)
	assert.Positive(t, missing)
	close(m.held)
	r.Close()
	assert.Len(t, m.names, n-missing, "all others are written")
}

// TestFullDisk covers KR-16-05: what the disk does not take now is written once it does.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{err: errors.New("no space left on device")}
		r := New(m, identified, logr.Discard())
		for i := range 10 {
			r.Add(numbered(i))
		}
		await.Sleep(time.Minute)
		require.Greater(t, m.tried(), 2)
		m.set(nil)
		r.Close()
		assert.Equal(t, names(10), m.names)
	})
}

func TestUnknownCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tries := &memory{}, 0
		r := New(m, func(context.Context) (recordsv1alpha1.Cluster, error) {
			if tries++; tries < 3 {
				return recordsv1alpha1.Cluster{}, errors.New("the API server is away")
			}
			return cluster, nil
		}, logr.Discard())
		r.Add(numbered(0))
		await.Sleep(time.Minute)
		require.Positive(t, m.tried())
		r.Close()
		assert.Equal(t, names(1), m.names)
	})
}

func TestInvalidOccurrence(t *testing.T) {
	m := &memory{}
	r := New(m, identified, logr.Discard())
	r.Add(numbered(-1))
	r.Add(numbered(0))
	r.Close()
	assert.Equal(t, names(1), m.names, "one that panics costs no other")
}

func BenchmarkAdd(b *testing.B) {
	r := New(&memory{held: closedChannel()}, identified, logr.Discard())
	defer r.Close()
	var o Occurrence = numbered(7)
	b.ReportAllocs()
	for b.Loop() {
		r.Add(o)
	}
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// TestAddIsCheap covers KR-16-03: what a decision pays for a record is at most 5 µs, in the quickest of many runs: the machine may be
// busy.
func TestAddIsCheap(t *testing.T) {
	r := New(&memory{}, identified, logr.Discard())
	defer r.Close()
	var o Occurrence = numbered(7)
	if best := quickest(func() { r.Add(o) }); best > 5*time.Microsecond {
		t.Errorf("one occurrence costs %s", best)
	}
}

// quickest time of a call, of many short runs: others may use the machine.
func quickest(f func()) time.Duration {
	const calls = 50
	best := time.Hour
	for range 400 {
		started := time.Now()
		for range calls {
			f()
		}
		best = min(best, time.Since(started)/calls)
	}
	return best
}
