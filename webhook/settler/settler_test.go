package settler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// idleSettler of a cluster of which nothing is read.
func idleSettler(t *testing.T) (*Settler, *time.Time) {
	t.Helper()
	c, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"})
	require.NoError(t, err)
	tr, clock := clockedMemory()
	w, err := New(c, tr, time.Second, logr.Discard())
	require.NoError(t, err)
	w.now = tr.now
	return w, clock
}

// poisoned states panic for one object and count the writes to the others.
type poisoned struct {
	states
	poison  string
	applied chan string
}

// Cached is a settled widget of that name.
func (p poisoned) Cached(ref parent.Ref) *cluster.Object {
	if ref.Name == p.poison {
		panic("poison")
	}
	o := settledWidget(2, nil)
	o.SetName(ref.Name)
	o.SetUID(ref.UID)
	return &cluster.Object{State: parent.Sum(o, parent.RoleNone)}
}

// Apply counts.
func (p poisoned) Apply(_ context.Context, ref parent.Ref, _ cluster.Patch) error {
	p.applied <- ref.Name
	return nil
}

// TestSettlerRecovers: an object whose reconciliation panics is retried and delays no other; the process goes
// on (KR-13-02).
func TestSettlerRecovers(t *testing.T) {
	w, _ := idleSettler(t)
	w.leader.Store(true)
	p := poisoned{states: w.states, poison: "bad", applied: make(chan string, 100)}
	w.states = p
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Start(ctx) }()
	for i := range 2 * workers { // more than there are workers
		w.queue.Add(parent.Ref{GroupVersionKind: widget, Name: "bad", UID: types.UID(fmt.Sprint("bad", i))})
	}
	w.queue.Add(parent.Ref{GroupVersionKind: widget, Name: "good", UID: "good"})
	assert.Equal(t, "good", <-p.applied)
	bad := parent.Ref{GroupVersionKind: widget, Name: "bad", UID: "bad0"}
	assert.Eventually(t, func() bool { return w.queue.NumRequeues(bad) > 1 }, 10*time.Second, time.Millisecond, "it is tried again")
	cancel()
	assert.NoError(t, <-ended)
}

// settledWidget at generation 4 whose last intent, own, is observed and was made an
// hour ago.
func settledWidget(own int64, annotations map[string]string) *unstructured.Unstructured {
	o := widgetObject(4)
	a := map[string]string{
		v1alpha1.AnnotationKeyTrace:       trace.Trace{trace.Hop(parent.RefOf(o), own, "hans", time.Date(2026, 1, 2, 11, 0, 0, 0, time.UTC))}.String(),
		v1alpha1.AnnotationKeyControllers: "2m2kc", v1alpha1.AnnotationKeyPhase: "initialized",
	}
	for k, v := range annotations {
		a[k] = v
	}
	o.SetAnnotations(a)
	o.Object["status"] = map[string]any{"observedGeneration": int64(4), "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	return o
}

func resized(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.Object["spec"].(map[string]any)["size"] = int64(6)
	return o
}

// The desired state at which a parent settled is written with the latch, once, and
// only while the last intent is the one that settled (KR-02-06).
func TestSettlerRecordsSettledState(t *testing.T) {
	latch, state := v1alpha1.AnnotationKeySettledGeneration, v1alpha1.AnnotationKeySettledState
	own := func(generation int64) string {
		return parent.Sum(settledWidget(generation, nil), parent.RoleNone).SettledState(generation)
	}
	failing := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.Object["status"] = map[string]any{"observedGeneration": int64(4), "conditions": []any{map[string]any{"type": "Ready", "status": "False"}}}
		return o
	}
	labelled := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{"manager": "argocd", "operation": "Apply", "time": "2026-01-02T11:30:00Z",
			"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:a": map[string]any{}}}, "f:spec": map[string]any{"f:size": map[string]any{}}}}}
		return o
	}
	cases := map[string]struct {
		reason string
		object *unstructured.Unstructured
		memory int64
		want   map[string]string
	}{
		"Settles":      {"both at once", settledWidget(2, nil), -1, map[string]string{latch: "2", state: own(2)}},
		"Unsettled":    {"nothing settled", failing(settledWidget(2, nil)), -1, map[string]string{}},
		"Again":        {"what is there is left", settledWidget(2, map[string]string{latch: "2", state: own(2)}), -1, map[string]string{}},
		"NeverLanded":  {"the latch fell, and its write did not land", failing(settledWidget(2, nil)), 2, map[string]string{latch: "2", state: own(2)}},
		"LandsTooLate": {"a later intent came between", failing(settledWidget(4, nil)), 2, map[string]string{}},
		"NextLatch":    {"another intent settles", settledWidget(4, map[string]string{latch: "2", state: own(2)}), -1, map[string]string{latch: "4", state: own(4)}},
		"OldRelease":   {"an older release wrote the latch alone", settledWidget(2, map[string]string{latch: "2"}), -1, map[string]string{state: own(2)}},
		"LeftBehind":   {"and left that of another intent", failing(settledWidget(4, map[string]string{latch: "4", state: own(2)})), -1, map[string]string{state: own(4)}},
		"Initialised":  {"its own controller changed it since: once told is told", resized(settledWidget(2, map[string]string{latch: "2", state: own(2)})), -1, map[string]string{}},
		"LaterIntent":  {"there is a later intent that did not settle: its state is not recorded for the older", failing(resized(settledWidget(4, map[string]string{latch: "2"}))), -1, map[string]string{}},
		"Labelled":     {"a label while nobody watched is no intent: nothing is written", labelled(settledWidget(2, map[string]string{latch: "2", state: own(2)})), -1, map[string]string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, _ := idleSettler(t)
			s := parent.Sum(tc.object, parent.RoleNone)
			w.memory.latch(s.UID, tc.memory)
			for range 2 { // another replica, or the same again
				edits := map[string]*string{}
				w.settle(t.Context(), s, edits)
				got := map[string]string{}
				for k, v := range edits {
					got[k] = *v
				}
				assert.Equal(t, tc.want, got, tc.reason)
			}
		})
	}
}

// An object that is nobody's parent is not marked as one.
func TestSettlerRecordsParentsAlone(t *testing.T) {
	w, _ := idleSettler(t)
	o := settledWidget(2, nil)
	a := o.GetAnnotations()
	for _, key := range []string{v1alpha1.AnnotationKeyControllers, v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration} {
		delete(a, key)
	}
	o.SetAnnotations(a)
	edits := map[string]*string{}
	w.settle(t.Context(), parent.Sum(o, parent.RoleNone), edits)
	assert.Empty(t, edits)
}

// The others leave the record to the leader, the latch and its state together (KR-03-06).
func TestSettlerFollows(t *testing.T) {
	w, clock := idleSettler(t)
	s := parent.Sum(settledWidget(2, nil), parent.RoleNone)
	edits := map[string]*string{}
	w.settle(t.Context(), s, edits)
	assert.Positive(t, w.leaveToLeader(s, edits))
	assert.Empty(t, edits, "the leader has it to write")
	*clock = clock.Add(followerPatience)
	w.settle(t.Context(), s, edits)
	assert.Zero(t, w.leaveToLeader(s, edits))
	assert.Len(t, edits, 2, "it did not")
}

// TestSettlerSeesEachObserved: an observed generation counts though a lower one
// follows before the writer has looked (facts 6).
func TestSettlerSeesEachObserved(t *testing.T) {
	w, _ := idleSettler(t)
	with := func(observed int64) *cluster.Object {
		o := widgetObject(4)
		o.Object["status"] = map[string]any{"observedGeneration": observed}
		return &cluster.Object{State: parent.Sum(o, parent.RoleNone)}
	}
	for _, observed := range []int64{3, 4, 2} {
		w.changed(nil, with(observed))
	}
	got, known, _ := w.memory.observed(with(2).State)
	assert.True(t, known)
	assert.Equal(t, int64(4), got)
}
