package heartbeat

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

const (
	// beatEvery is how old the last heartbeat is when the next one is written, by any of the replicas: one write in this time, however
	// many there are.
	beatEvery = 1500 * time.Millisecond
	// beatJitter is the longest that a replica waits beyond that for another one to write it.
	beatJitter = 500 * time.Millisecond
	// beatCheck is how often that is determined.
	beatCheck = 100 * time.Millisecond
	// lateAfter is how old the last heartbeat may be while the watches are trusted.
	lateAfter = 4 * time.Second
	// catchUp is for how long the watches still count as late after a late heartbeat came: events of other watches may come after it, and
	// policies have to be compiled.
	catchUp = 2 * time.Second
	// beatTimeout bounds one write of a heartbeat.
	beatTimeout = 2 * time.Second
	// pingAfter is for how many seconds a connection may be silent before it is pinged, pingWithin how many it has to answer.
	pingAfter, pingWithin = "2", "2"
)

var (
	// Leases are the resource of the heartbeat.
	Leases      = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	watchesLate = telemetry.NewGauge("kausality_watches_late").WithLabelValues()
)

// PingConnections to the API server, in this process, so that one that hangs is closed within seconds. It applies to connections that
// are made afterwards. What the environment sets goes first.
func PingConnections() error {
	for name, value := range map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": pingAfter, "HTTP2_PING_TIMEOUT_SECONDS": pingWithin} {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("cannot set %s: %w", name, err)
		}
	}
	return nil
}

// Protection is what the flags of the webhook demand of clients and approvers. The replica that writes a heartbeat reports its
// own with it, so that tools can show what is not protected.
type Protection struct {
	// ClientCertificates: only clients with a certificate of --client-ca-file are answered.
	ClientCertificates bool                   `json:"clientCertificates"`
	ApproverRBAC       admission.ApproverRBAC `json:"approverRBAC"`
}

// Heartbeat shows whether the watches of this process are up to date: a Lease that its replicas keep writing, and that each of them watches
// over the connection of its other watches (KR-13-24). It is safe for concurrent use.
type Heartbeat struct {
	// Reports is written with each heartbeat. Set it before Start.
	Reports Protection

	lease     dynamic.ResourceInterface
	namespace string
	name      string
	log       logr.Logger
	informer  cache.SharedIndexInformer
	now       func() time.Time
	// seen is the time in the last heartbeat that came, in nanoseconds since the epoch; 0 for none.
	seen atomic.Int64
	// ended is when a heartbeat last ended a time in which the watches were late, in nanoseconds since the epoch; 0 for never.
	ended atomic.Int64
}

// New returns a Heartbeat that is late until Start, and until it came. The Lease is in a namespace, and is created.
func New(client dynamic.Interface, namespace, name string, log logr.Logger) (*Heartbeat, error) {
	h := &Heartbeat{
		lease: client.Resource(Leases).Namespace(namespace), namespace: namespace, name: name, log: log, now: clock.Now,
	}
	h.informer = informer.NewIn(client, Leases, namespace, name, func(o *unstructured.Unstructured) any { return BeatOf(o) })
	_, err := h.informer.AddEventHandler(informer.Handler("heartbeat", cache.ResourceEventHandlerFuncs{
		AddFunc:    h.came,
		UpdateFunc: func(_, o any) { h.came(o) },
	}))
	if err != nil {
		return nil, fmt.Errorf("cannot watch the heartbeat: %w", err)
	}
	return h, nil
}

// Beat is what is kept of the Lease.
type Beat struct {
	informer.Meta
	At time.Time
}

// BeatOf a Lease. The time is zero for a Lease without a time in the format of the heartbeat, which Kausality did not write.
func BeatOf(o *unstructured.Unstructured) *Beat {
	text, _, _ := unstructured.NestedString(o.Object, "spec", "renewTime")
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		at = time.Time{} // another client wrote it
	}
	return &Beat{Meta: informer.MetaOf(o), At: at}
}

// came a heartbeat. One of the future counts as one of now.
func (h *Heartbeat) came(o any) {
	b, ok := o.(*Beat)
	if !ok || b.At.IsZero() {
		return
	}
	at := b.At
	if now := h.now(); at.After(now) {
		at = now
	}
	before := h.seen.Load()
	if before > h.now().Add(lateAfter).UnixNano() { // seen before the clock was corrected
		before = 0
	}
	if before > 0 && h.age() > lateAfter {
		h.ended.Store(h.now().UnixNano())
	}
	h.seen.Store(max(before, at.UnixNano()))
}

// age of the last heartbeat that came.
func (h *Heartbeat) age() time.Duration {
	seen := h.seen.Load()
	if seen == 0 {
		return time.Hour
	}
	age := h.now().Sub(time.Unix(0, seen))
	if age < -lateAfter { // the clock was corrected: what was seen shows nothing
		return time.Hour
	}
	return age
}

// Late reports whether the watches of this process may not show what was stored some seconds ago. nil is never late: there is no
// heartbeat.
func (h *Heartbeat) Late() bool {
	if h == nil {
		return false
	}
	if h.age() > lateAfter {
		return true
	}
	since := h.now().Sub(time.Unix(0, h.ended.Load())) // negative where the clock was corrected
	return since >= 0 && since < catchUp
}

// NeedLeaderElection is false: each replica has watches of its own.
func (*Heartbeat) NeedLeaderElection() bool { return false }

// Start writes and awaits heartbeats until the context ends.
func (h *Heartbeat) Start(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.informer.RunWithContext(ctx)
	}()
	h.run(ctx)
	<-done
	return nil
}

// run writes heartbeats that are due.
func (h *Heartbeat) run(ctx context.Context) {
	tick := time.NewTicker(beatCheck)
	defer tick.Stop()
	var wrote, warned time.Time
	due := beatEvery + rand.N(beatJitter)
	for ctx.Err() == nil {
		late := 0.0
		if h.Late() {
			late = 1
		}
		watchesLate.Set(late)
		if h.age() >= due && time.Since(wrote) >= beatEvery {
			wrote, due = time.Now(), beatEvery+rand.N(beatJitter)
			if err := h.write(ctx); err != nil && ctx.Err() == nil && time.Since(warned) > time.Minute {
				warned = time.Now()
				h.log.Error(err, "cannot write the heartbeat that shows whether watches are late; parents and policies are read live")
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// write a heartbeat.
func (h *Heartbeat) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	reports, err := json.Marshal(h.Reports)
	if err != nil {
		return fmt.Errorf("cannot encode what the heartbeat reports: %w", err)
	}
	spec := map[string]any{"renewTime": h.now().UTC().Format(metav1.RFC3339Micro)}
	metadata := map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyProtection: string(reports)}}
	raw, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec})
	if err != nil {
		return fmt.Errorf("cannot encode a heartbeat: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: v1alpha1.ManagerWebhook}
	_, err = h.lease.Patch(ctx, h.name, types.MergePatchType, raw, options)
	if kerrors.IsNotFound(err) {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "spec": spec}}
		o.SetGroupVersionKind(Leases.GroupVersion().WithKind("Lease"))
		o.SetNamespace(h.namespace)
		o.SetName(h.name)
		if _, err = h.lease.Create(ctx, o, metav1.CreateOptions{FieldManager: options.FieldManager}); kerrors.IsAlreadyExists(err) {
			return nil // another replica was faster
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write Lease %s/%s: %w", h.namespace, h.name, err)
	}
	return nil
}
