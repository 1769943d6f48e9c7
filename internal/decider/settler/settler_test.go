package settler

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
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
	objects
	poison  string
	applied chan string
}

// Cached is a settled widget of that name.
func (p poisoned) Cached(ref parent.Ref) *states.Object {
	if ref.Name == p.poison {
		panic("poison")
	}
	o := settledWidget(2, nil)
	o.SetName(ref.Name)
	o.SetUID(ref.UID)
	return &states.Object{State: parent.Sum(o, parent.RoleNone)}
}

// Apply counts.
func (p poisoned) Apply(_ context.Context, ref parent.Ref, _ states.Patch) error {
	p.applied <- ref.Name
	return nil
}

// TestTraceOnly covers KR-07-13: nothing is written to what a policy only traces: Crossplane makes a revision of a Composition for
// each annotation.
func TestTraceOnly(t *testing.T) {
	for name, traced := range map[string]bool{"Traced": true, "Decided": false} {
		t.Run(name, func(t *testing.T) {
			w, _ := idleSettler(t)
			w.leader.Store(true)
			p := poisoned{objects: w.states, applied: make(chan string, 1)}
			w.states, w.traceOnly = p, func(*parent.State) bool { return traced }
			_, err := w.Reconcile(t.Context(), parent.Ref{GroupVersionKind: widget, Name: "good", UID: "good"})
			require.NoError(t, err)
			assert.Equal(t, traced, len(p.applied) == 0)
		})
	}
}

// TestSettlerRecovers: an object whose reconciliation panics is retried and delays no other; the process goes
// on (KR-13-02).
func TestSettlerRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := idleSettler(t)
		w.leader.Store(true)
		p := poisoned{objects: w.states, poison: "bad", applied: make(chan string, 100)}
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
		await.Sleep(time.Minute)
		assert.Greater(t, w.queue.NumRequeues(bad), 1, "it is tried again")
		cancel()
		assert.NoError(t, <-ended)
	})
}

// TestSettlerWatchesReviewedKinds: the first status write of a kind that is not watched has it watched. If that
// fails, the next one tries again, and nothing else does.
func TestSettlerWatchesReviewedKinds(t *testing.T) {
	w, _ := idleSettler(t)
	ref := parent.Ref{GroupVersionKind: widget, Name: "w", UID: "u"}
	for range 2 {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(widget)
		o.SetName(ref.Name)
		o.SetUID(ref.UID)
		o.SetResourceVersion("1")
		w.StatusReviewed(&admission.Request{OldObject: o, Object: o})
		assert.Equal(t, 1, w.queue.Len())
		got, _ := w.queue.Get()
		_, err := w.Reconcile(t.Context(), got)
		assert.ErrorIs(t, err, reconcile.TerminalError(nil), "no API server knows the kind")
		w.queue.Done(got)
	}
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

// applied is the managedFields entry of an author who owns a label and the size.
func applied(at string) map[string]any {
	return map[string]any{"manager": "argocd", "operation": "Apply", "time": at, "fieldsV1": map[string]any{
		"f:metadata": map[string]any{"f:labels": map[string]any{"f:a": map[string]any{}}},
		"f:spec":     map[string]any{"f:size": map[string]any{}},
	}}
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
		o.Object["metadata"].(map[string]any)["managedFields"] = []any{applied("2026-01-02T11:30:00Z")}
		return o
	}
	none := map[string]string{}
	cases := map[string]struct {
		reason string
		object *unstructured.Unstructured
		// memory is the latch that the replica remembers; -1 for none.
		memory int64
		want   map[string]string
	}{
		"Settles": {
			reason: "both at once", object: settledWidget(2, nil), memory: -1, want: map[string]string{latch: "2", state: own(2)},
		},
		"Unsettled": {reason: "nothing settled", object: failing(settledWidget(2, nil)), memory: -1, want: none},
		"Again": {
			reason: "what is recorded stays", object: settledWidget(2, map[string]string{latch: "2", state: own(2)}), memory: -1, want: none,
		},
		"WriteLost": {
			reason: "it settled, and the write failed", object: failing(settledWidget(2, nil)), memory: 2, want: map[string]string{latch: "2", state: own(2)},
		},
		"WriteTooLate": {reason: "a later intent came between", object: failing(settledWidget(4, nil)), memory: 2, want: none},
		"NextLatch": {
			reason: "another intent settles", object: settledWidget(4, map[string]string{latch: "2", state: own(2)}), memory: -1,
			want: map[string]string{latch: "4", state: own(4)},
		},
		"OldRelease": {
			reason: "an older release wrote the latch alone", object: settledWidget(2, map[string]string{latch: "2"}), memory: -1,
			want: map[string]string{state: own(2)},
		},
		"OldState": {
			reason: "an older release left the state of another intent", memory: -1,
			object: failing(settledWidget(4, map[string]string{latch: "4", state: own(2)})), want: map[string]string{state: own(4)},
		},
		"ChangedByController": {
			reason: "its own controller changed it since: the state is written once", memory: -1,
			object: resized(settledWidget(2, map[string]string{latch: "2", state: own(2)})), want: none,
		},
		"LaterIntent": {
			reason: "a later intent did not settle: its state is not recorded for the earlier one", memory: -1,
			object: failing(resized(settledWidget(4, map[string]string{latch: "2"}))), want: none,
		},
		"Labelled": {
			reason: "a label set while no webhook ran is no intent", memory: -1,
			object: labelled(settledWidget(2, map[string]string{latch: "2", state: own(2)})), want: none,
		},
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

// An object that is the parent of nothing is not marked as one.
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
// follows before the writer has observed it (KR-03-01).
func TestSettlerSeesEachObserved(t *testing.T) {
	w, _ := idleSettler(t)
	with := func(observed int64) *states.Object {
		o := widgetObject(4)
		o.Object["status"] = map[string]any{"observedGeneration": observed}
		return &states.Object{State: parent.Sum(o, parent.RoleNone)}
	}
	for _, observed := range []int64{3, 4, 2} {
		w.changed(nil, with(observed))
	}
	got, known, _ := w.memory.observed(with(2).State)
	assert.True(t, known)
	assert.Equal(t, int64(4), got)
}

// family has one parent, whatever it is that is read.
type family struct {
	objects
	parent *parent.State
}

// Cached is the parent.
func (f family) Cached(parent.Ref) *states.Object {
	if f.parent == nil {
		return nil
	}
	return &states.Object{State: f.parent}
}

// TestSettlerWakes: a change of an object concerns what may be recorded on it, and its parent only where that settles by it (KR-03-06).
func TestSettlerWakes(t *testing.T) {
	const claims = v1alpha1.AnnotationKeyClaims
	child := &parent.State{Ref: parent.Ref{Name: "child", UID: "child"}, Parent: parent.Ref{Name: "parent"}, Generation: 2}
	with := func(s *parent.State, edit func(*parent.State)) *parent.State {
		c := *s
		edit(&c)
		return &c
	}
	composite := with(child, func(s *parent.State) {
		s.Ref, s.Parent, s.Role, s.Generation = parent.Ref{Name: "parent", UID: "parent"}, parent.Ref{}, parent.RoleComposite, 3
	})
	annotated := func(s *parent.State, key, value string) *parent.State {
		return with(s, func(s *parent.State) { s.Annotations = map[string]string{key: value} })
	}
	plain := with(composite, func(s *parent.State) { s.Role = parent.RoleNone })
	for name, tc := range map[string]struct {
		child, parent *parent.State
		noted, scaled bool
		want          []string
	}{
		"Nothing":       {child: child},
		"Observes":      {child: with(child, func(s *parent.State) { s.HasObserved, s.ObservedGeneration = true, 2 }), want: []string{"child"}},
		"Parent":        {child: child, noted: true, want: []string{"child"}},
		"Marked":        {child: annotated(child, v1alpha1.AnnotationKeyPhase, "Initializing"), want: []string{"child"}},
		"Claims":        {child: annotated(child, claims, "[]"), want: []string{"child"}},
		"Scaled":        {child: child, scaled: true, want: []string{"child"}},
		"Managed":       {child: with(child, func(s *parent.State) { s.Role, s.HasObserved, s.ObservedGeneration = parent.RoleManaged, true, 2 })},
		"Composed":      {child: child, parent: composite, want: []string{"parent"}},
		"Settled":       {child: child, parent: annotated(composite, v1alpha1.AnnotationKeySettledGeneration, "3")},
		"PlainParent":   {child: child, parent: plain},
		"PendingClaims": {child: child, parent: annotated(plain, claims, "[]"), want: []string{"parent"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := idleSettler(t)
			w.states = family{parent: tc.parent}
			if tc.noted {
				w.memory.NoteParent(tc.child)
			}
			if tc.scaled {
				w.memory.write(tc.child.UID, func(o *record) { o.scale = &scaling{} })
			}
			w.changed(nil, &states.Object{State: tc.child})
			var got []string
			for w.queue.Len() > 0 {
				ref, _ := w.queue.Get()
				got = append(got, ref.Name)
				w.queue.Done(ref)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

// TestSettlerWritesTogether: a phase that is all there is to write waits for the controllers and for the latch, not for ever, and one
// that was reached is written although it flaps before (KR-04-17).
func TestSettlerWritesTogether(t *testing.T) {
	w, clock := idleSettler(t)
	w.grace = 10 * time.Second
	s := parent.Sum(widgetObject(4), parent.RoleNone)
	phase := func(p v1alpha1.Phase, more ...string) map[string]*string {
		out := map[string]*string{}
		if p != "" {
			out[v1alpha1.AnnotationKeyPhase] = new(string(p))
		}
		for _, k := range more {
			out[k] = new("x")
		}
		return out
	}
	const initializing, initialized = v1alpha1.PhaseInitializing, v1alpha1.PhaseInitialized
	edits := phase(initializing)
	assert.Equal(t, phasePatience, w.together(s, edits, false))
	assert.Empty(t, edits, "the controllers come at once")
	edits = phase(initializing, v1alpha1.AnnotationKeyControllers)
	assert.Zero(t, w.together(s, edits, false))
	assert.Len(t, edits, 2, "one write")

	*clock = clock.Add(phasePatience)
	edits = phase(initializing)
	assert.Zero(t, w.together(s, edits, false))
	assert.Len(t, edits, 1, "nothing came")

	edits = phase(initialized)
	assert.Equal(t, phasePatience+w.grace, w.together(s, edits, true))
	assert.Empty(t, edits, "the latch comes after the grace")
	*clock = clock.Add(w.grace)
	edits = phase(initialized, v1alpha1.AnnotationKeySettledGeneration)
	assert.Zero(t, w.together(s, edits, true))
	assert.Len(t, edits, 2)

	other := parent.Sum(widgetObject(4), parent.RoleNone)
	other.UID = "other"
	w.together(other, phase(initialized), true)
	edits = phase(initializing)
	assert.Equal(t, phasePatience, w.together(other, edits, false), "it goes on waiting")
	*clock = clock.Add(phasePatience)
	edits = phase(initializing)
	assert.Zero(t, w.together(other, edits, false))
	assert.Equal(t, string(initialized), *edits[v1alpha1.AnnotationKeyPhase], "it was ready")
	other.Annotations = map[string]string{v1alpha1.AnnotationKeyPhase: string(initialized)}
	edits = phase("")
	assert.Zero(t, w.together(other, edits, false))
	assert.Empty(t, edits, "it is written")
}

// TestSettlerWritesCompositesOnce: all that is recorded on a composite while it is created is one write, unless it takes long (KR-04-18).
func TestSettlerWritesCompositesOnce(t *testing.T) {
	const initializing, initialized = string(v1alpha1.PhaseInitializing), string(v1alpha1.PhaseInitialized)
	edits := func(phase string, more ...string) map[string]*string {
		out := map[string]*string{v1alpha1.AnnotationKeyPhase: new(phase), v1alpha1.AnnotationKeyControllers: new("x"), v1alpha1.AnnotationKeyControllerIDs: new("x")}
		for _, k := range more {
			out[k] = new("x")
		}
		return out
	}
	for _, role := range []parent.Role{parent.RoleComposite, parent.RoleClaim} {
		w, clock := idleSettler(t)
		w.grace = 10 * time.Second
		s := parent.Sum(widgetObject(4), role)
		all := edits(initializing)
		assert.Equal(t, phasePatience+2*w.grace, w.together(s, all, false))
		assert.Empty(t, all, "the latch follows")
		*clock = clock.Add(5 * time.Second)
		all = edits(initialized)
		assert.Equal(t, phasePatience+2*w.grace, w.together(s, all, false))
		assert.Empty(t, all, "a gate is still open")
		*clock = clock.Add(2 * w.grace)
		all = edits(initialized, v1alpha1.AnnotationKeySettledGeneration)
		assert.Zero(t, w.together(s, all, false))
		assert.Len(t, all, 4, "one write")

		flaps := parent.Sum(widgetObject(4), role)
		flaps.UID = "flaps"
		w.together(flaps, edits(initialized), false)
		*clock = clock.Add(time.Second)
		all = edits(initializing)
		assert.Equal(t, phasePatience+2*w.grace-time.Second, w.together(flaps, all, false))
		assert.Empty(t, all, "Ready flaps")

		slow := parent.Sum(widgetObject(4), role)
		slow.UID = "slow"
		w.together(slow, edits(initializing), false)
		*clock = clock.Add(phasePatience + 2*w.grace)
		all = edits(initializing)
		assert.Zero(t, w.together(slow, all, false))
		assert.Len(t, all, 3, "it takes long")

		s.Annotations = map[string]string{v1alpha1.AnnotationKeyPhase: initialized}
		all = edits(initialized)
		delete(all, v1alpha1.AnnotationKeyPhase)
		assert.Zero(t, w.together(s, all, false))
		assert.Len(t, all, 2, "a controller with a new name is recorded at once")
	}
}
