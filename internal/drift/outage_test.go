package drift

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// driftStore is an API server, and a cache of it, of many Drifts; the fake client copies all of them for each list.
type driftStore struct {
	client.Reader
	drifts map[string]*v1alpha1.Drift
	// written counts the writes of status by kind.
	written map[string]int
}

// List is the cache's.
func (s *driftStore) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	out := list.(*v1alpha1.DriftList)
	for _, d := range s.drifts {
		out.Items = append(out.Items, *d)
	}
	return nil
}

// client of the store.
func (s *driftStore) client(t *testing.T) client.Client {
	t.Helper()
	return driftClient(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			d, ok := o.(*v1alpha1.Drift)
			if !ok {
				return c.Get(ctx, key, o, opts...)
			}
			stored := s.drifts[key.Name]
			if stored == nil {
				return kerrors.NewNotFound(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceDrifts).GroupResource(), key.Name)
			}
			stored.DeepCopyInto(d)
			return nil
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			s.written[fmt.Sprintf("%T", o)]++
			if d, ok := o.(*v1alpha1.Drift); ok {
				s.drifts[d.Name] = d.DeepCopy()
				return nil
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// TestDeliverOutage covers KR-10-14 and KR-10-16: a receiver is away for six hours while 10,000 Drifts are open, and the leader changes each
// hour. Each report is accepted once in the end, and no more is written than one status for each attempt, and a DriftReceiver now and then.
func TestDeliverOutage(t *testing.T) {
	const drifts, outage = 10_000, 6 * time.Hour
	now := time.Now().UTC().Truncate(time.Second)
	begin := now
	attempts, accepted := 0, map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		attempts++
		if now.Sub(begin) < outage {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		accepted[r.Header.Get("Idempotency-Key")]++
	}))
	t.Cleanup(server.Close)
	sender := &Sender{Name: "host/0a1b2c3d", url: server.URL, client: server.Client()}
	store := &driftStore{drifts: map[string]*v1alpha1.Drift{}, written: map[string]int{}}
	for i := range drifts {
		d := object(item(fmt.Sprintf("%016x", i)).Report)
		since := metav1.NewTime(begin)
		d.UID, d.ResourceVersion = types.UID(d.Name), "1"
		d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &since, Deliveries: owing([]string{sender.Name}, &since)}
		store.drifts[d.Name] = d
	}
	c := store.client(t)
	leader := func() *receiver {
		d := &Deliverer{Drifts: store, Client: c, Component: v1alpha1.ManagerWebhook, Log: logr.Discard(), senders: []*Sender{sender},
			Author: func(_ context.Context, d *v1alpha1.Drift, phase v1alpha1.DriftPhase) v1alpha1.DriftReport {
				return reportOf(d, phase)
			}}
		to := d.receiver(sender)
		to.now = func() time.Time { return now }
		return to
	}
	to, rounds := leader(), 0
	for elected := now; now.Sub(begin) < outage; rounds++ {
		if now.Sub(elected) > time.Hour {
			to, elected = leader(), now
		}
		require.NoError(t, to.round(t.Context()))
		now = to.next
	}
	assert.Less(t, attempts, 200, "it is left alone")
	assert.Empty(t, accepted)
	assert.Equal(t, attempts, store.written["*v1alpha1.Drift"], "one for each attempt")
	assert.LessOrEqual(t, store.written["*v1alpha1.DriftReceiver"], rounds)
	receiver, ready := readyOf(t, c, sender)
	assert.EqualValues(t, drifts, receiver.Status.Pending)
	assert.Equal(t, v1alpha1.ReasonDeliveryFailed, ready.Reason)

	failed := attempts
	for range 2 {
		require.NoError(t, to.round(t.Context()))
	}
	assert.Len(t, accepted, drifts)
	assert.Equal(t, drifts, attempts-failed, "each once")
	assert.Equal(t, attempts, store.written["*v1alpha1.Drift"])
	assert.LessOrEqual(t, store.written["*v1alpha1.DriftReceiver"], rounds+3)
	_, ready = readyOf(t, c, sender)
	assert.Equal(t, metav1.ConditionTrue, ready.Status)
}
