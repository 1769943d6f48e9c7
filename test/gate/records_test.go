package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/records/sink"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// receiver keeps each record that webhook and gate deliver once, by its id.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	records map[string]recordsv1alpha1.Record
	order   []string
	// broken are requests that were no batches of records, and repetitions with another content.
	broken []string
}

func newReceiver() *receiver {
	r := &receiver{records: map[string]recordsv1alpha1.Record{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil { // its sender was killed
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var events []sink.Event
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := json.Unmarshal(body, &events); err != nil {
			r.broken = append(r.broken, err.Error())
		}
		for _, e := range events {
			r.keep(e)
		}
	}))
	return r
}

func (r *receiver) keep(e sink.Event) {
	record, err := recordsv1alpha1.Decode(e.Data)
	switch old, known := r.records[record.ID]; {
	case err != nil:
		r.broken = append(r.broken, err.Error())
	case !known:
		r.records[record.ID] = record
		r.order = append(r.order, record.ID)
	case !old.Time.Equal(&record.Time) || old.Type != record.Type || old.Object.Name != record.Object.Name:
		r.broken = append(r.broken, fmt.Sprintf("%s is %s %s, and was %s %s", record.ID, record.Type, record.Time, old.Type, old.Time))
	}
}

// flag of a process that delivers to it.
func (r *receiver) flag() string { return "--record-sink=cloudevents=" + r.URL + ",plain=true" }

// in a Namespace, in the order of delivery.
func (r *receiver) in(ns string) (out []recordsv1alpha1.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.order {
		if record := r.records[id]; record.Object.Namespace == ns {
			out = append(out, record)
		}
	}
	return out
}

func (r *receiver) mistakes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.broken)
}

// await the first record that fits.
func (r *receiver) await(t *testing.T, ns, what string, fits func(recordsv1alpha1.Record) bool) (found recordsv1alpha1.Record) {
	t.Helper()
	wait.For(t, "the record of "+what, 60*time.Second, func(context.Context) error {
		var have []string
		for _, record := range r.in(ns) {
			if fits(record) {
				found = record
				return nil
			}
			have = append(have, fmt.Sprintf("%s %s %s %v", record.Type, record.Object.Name, record.Reason, record.CausedBy))
		}
		return fmt.Errorf("there are %s", strings.Join(have, "\n"))
	})
	return found
}

// TestRecords covers KR-16-10, KR-16-11 and KR-16-12: a change of a user, drift that is held, its approval, and the gate that opens and is
// confirmed arrive at a receiver, each with the ids of the records before it.
func TestRecords(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "records")
	mr := s.settled("store", 10).GetName()
	created := the.records.await(t, s.ns, "the creation", func(r recordsv1alpha1.Record) bool {
		return r.Type == recordsv1alpha1.TypeIntent && r.Object.Kind == "XStore"
	})
	assert.Equal(t, hans, created.Actor.User)
	ns, err := s.hans.Resource(namespaces).Get(t.Context(), "kube-system", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, recordsv1alpha1.Cluster{Name: "test", UID: ns.GetUID()}, created.Cluster)

	// Crossplane composes another tier, which nothing explains.
	require.Error(t, s.compose(t.Context(), "store", composeAs{tier: "silver"}))
	held := the.records.await(t, s.ns, "the held drift", func(r recordsv1alpha1.Record) bool { return r.Type == recordsv1alpha1.TypeDriftHeld })
	assert.Equal(t, mr, held.Object.Name)
	assert.Equal(t, []string{created.ID}, held.CausedBy, "the intent that does not explain it")
	assert.Equal(t, []string{"spec.forProvider.tags.tier"}, held.Paths)
	require.Len(t, held.Differences, 1)

	s.annotate(xstores, "store", "kausality.io/approve-"+held.Differences[0], "once")
	vote := the.records.await(t, s.ns, "the vote", func(r recordsv1alpha1.Record) bool { return r.Type == recordsv1alpha1.TypeVote })
	assert.Equal(t, hans, vote.Actor.User)
	wait.For(t, "the approved change", 60*time.Second, func(ctx context.Context) error {
		return s.compose(ctx, "store", composeAs{tier: "silver"})
	})
	used := the.records.await(t, s.ns, "the use", func(r recordsv1alpha1.Record) bool { return r.Type == recordsv1alpha1.TypeApprovalUsed })
	assert.Equal(t, []string{vote.ID}, used.CausedBy)
	assert.Equal(t, held.Differences, used.Differences)
	change := the.records.await(t, s.ns, "the change", func(r recordsv1alpha1.Record) bool {
		return r.Type == recordsv1alpha1.TypeIntent && r.Object.Name == mr && slices.Contains(r.CausedBy, used.ID)
	})
	assert.Equal(t, crossplane, change.Actor.User)
	require.Len(t, change.Approvers, 1)
	assert.Equal(t, hans, change.Approvers[0].User)

	opened := the.records.await(t, s.ns, "the opening", func(r recordsv1alpha1.Record) bool {
		return r.Type == recordsv1alpha1.TypeGateOpened && slices.Contains(r.CausedBy, change.ID)
	})
	assert.Equal(t, []string{"Update"}, opened.Verbs)
	the.records.await(t, s.ns, "the confirmation", func(r recordsv1alpha1.Record) bool {
		return r.Type == recordsv1alpha1.TypeGateConfirmed && slices.Contains(r.CausedBy, opened.ID)
	})
	the.records.await(t, s.ns, "the end of the drift", func(r recordsv1alpha1.Record) bool {
		return r.Type == recordsv1alpha1.TypeResolved && slices.Contains(r.CausedBy, held.ID)
	})
	assert.Empty(t, the.records.mistakes())
	for _, r := range the.records.in(s.ns) {
		raw, err := recordsv1alpha1.Encode(r)
		require.NoError(t, err)
		assert.NotContains(t, string(raw), "silver", "no value is recorded")
	}
}
