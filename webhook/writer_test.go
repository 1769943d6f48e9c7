package webhook

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// idleWriter of a cluster of which nothing is read.
func idleWriter(t *testing.T) (*writer, *time.Time) {
	t.Helper()
	c, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"})
	require.NoError(t, err)
	tr, clock := clockedTracker()
	w := newWriter(c, tr, time.Second, logr.Discard())
	w.now = tr.now
	return w, clock
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
// only while the last intent is the one that settled.
func TestWriterRecordsSettledState(t *testing.T) {
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
			w, _ := idleWriter(t)
			s := parent.Sum(tc.object, parent.RoleNone)
			w.tracker.latch(s.UID, tc.memory)
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
func TestWriterRecordsParentsAlone(t *testing.T) {
	w, _ := idleWriter(t)
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

// The others leave the record to the leader, the latch and its state together.
func TestWriterFollows(t *testing.T) {
	w, clock := idleWriter(t)
	s := parent.Sum(settledWidget(2, nil), parent.RoleNone)
	edits := map[string]*string{}
	w.settle(t.Context(), s, edits)
	assert.Positive(t, w.follow(s, edits))
	assert.Empty(t, edits, "the leader has it to write")
	*clock = clock.Add(followerPatience)
	w.settle(t.Context(), s, edits)
	assert.Zero(t, w.follow(s, edits))
	assert.Len(t, edits, 2, "it did not")
}

// TestWriterSeesEachObserved: an observed generation counts though a lower one
// follows before the writer has looked (facts 6).
func TestWriterSeesEachObserved(t *testing.T) {
	w, _ := idleWriter(t)
	with := func(observed int64) *cluster.Object {
		o := widgetObject(4)
		o.Object["status"] = map[string]any{"observedGeneration": observed}
		return &cluster.Object{State: parent.Sum(o, parent.RoleNone)}
	}
	for _, observed := range []int64{3, 4, 2} {
		w.changed(nil, with(observed))
	}
	got, known, _ := w.tracker.observed(with(2).State)
	assert.True(t, known)
	assert.Equal(t, int64(4), got)
}
