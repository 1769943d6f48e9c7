package settler

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// clockedMemory with a clock that the test moves.
func clockedMemory() (*Memory, *time.Time) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	t := NewMemory()
	t.now = func() time.Time { return now }
	return t, &now
}

func TestMemoryForgetsBeyondItsBound(t *testing.T) {
	tr, _ := clockedMemory()
	for i := range maxObjects + 10 {
		tr.latch(types.UID(fmt.Sprint(i)), 1)
	}
	assert.Len(t, tr.objects, maxObjects, "memory is bounded, whatever is thrown at it")
	tr.write("", func(*record) { t.Error("an object without a UID has no record") })
	tr.Forget(types.UID(fmt.Sprint(maxObjects + 9)))
	assert.EqualValues(t, -1, tr.Settled(parent.Ref{UID: types.UID(fmt.Sprint(maxObjects + 9))}))
}

// TestMemoryLatchNeverGoesDown covers KR-02-06.
func TestMemoryLatchNeverGoesDown(t *testing.T) {
	tr, _ := clockedMemory()
	ref := parent.Ref{UID: "u"}
	assert.EqualValues(t, -1, tr.Settled(ref), "nothing is known")
	tr.latch("u", 4)
	tr.latch("u", 3)
	assert.EqualValues(t, 4, tr.Settled(ref))
}

// Crossplane can write an older observed generation again (KR-03-01, KR-03-02).
func TestMemoryObserved(t *testing.T) {
	tr, _ := clockedMemory()
	state := func(observed int64, has bool) *parent.State {
		return &parent.State{Ref: parent.Ref{UID: "u"}, ObservedGeneration: observed, HasObserved: has, HasStatus: true}
	}
	_, known, _ := tr.observed(state(0, false))
	assert.False(t, known, "a kind that reports none, whose status was never written")
	storeStatus(tr, statusWrite("ctrl", 2, "7"))
	_, known, _ = tr.observed(state(0, false))
	assert.False(t, known, "an older state of it does not show the write")
	n, known, _ := tr.observed(landed(state(0, false), "8"))
	assert.True(t, known)
	assert.EqualValues(t, 2, n, "it has observed what it was when its status was written")
	for _, tc := range []struct{ reported, want int64 }{{9, 9}, {10, 10}, {9, 10}, {11, 11}} {
		n, _, _ = tr.observed(state(tc.reported, true))
		assert.EqualValues(t, tc.want, n, "reported %d", tc.reported)
	}
}

// An intent is observed since that was seen to happen; what was so before the
// first look, and what Crossplane observes later, shows nothing.
func TestMemoryObservedSince(t *testing.T) {
	tr, clock := clockedMemory()
	state := func(generation, observed int64) *parent.State {
		s := &parent.State{Ref: parent.Ref{UID: "u"}, Generation: generation, ObservedGeneration: observed, HasObserved: true, HasStatus: true}
		s.Annotations = map[string]string{v1alpha1.AnnotationKeyTrace: trace.Trace{trace.Hop(s.Ref, generation, "hans", time.Time{})}.String()}
		return s
	}
	_, _, since := tr.observed(state(4, 4))
	assert.Zero(t, since, "it was so before")
	_, _, since = tr.observed(state(5, 4))
	assert.Zero(t, since, "it is not yet")
	*clock = clock.Add(time.Minute)
	at := *clock
	_, _, since = tr.observed(state(5, 5))
	assert.Equal(t, at, since)
	*clock = clock.Add(time.Minute)
	_, _, since = tr.observed(state(5, 6))
	assert.Equal(t, at, since, "bookkeeping is observed, too")
}

// TestMemoryControllers covers KR-02-04.
func TestMemoryControllers(t *testing.T) {
	tr, _ := clockedMemory()
	s := &parent.State{Ref: parent.Ref{UID: "u"}, Annotations: map[string]string{}}
	storeStatus(tr, statusWrite("bbbbb", 1, "7"))
	assert.True(t, tr.WritesStatus(s.Ref, idOf("bbbbb")))
	assert.Empty(t, tr.controllers(s), "nothing is recorded on an object that is no parent")
	for key, value := range map[string]string{
		v1alpha1.AnnotationKeyPhase: "initializing", v1alpha1.AnnotationKeySettledGeneration: "1", v1alpha1.AnnotationKeyControllers: "aaaaa",
	} {
		s.Annotations = map[string]string{key: value}
		assert.NotEmpty(t, tr.controllers(s), "another replica marked it as a parent by %s", key)
	}
	s.Annotations = map[string]string{v1alpha1.AnnotationKeyControllers: "aaaaa"}
	assert.True(t, tr.NoteParent(s), "news")
	assert.False(t, tr.NoteParent(s), "no longer")
	writer := subject.User{Name: "bbbbb"}
	want := map[string]string{v1alpha1.AnnotationKeyControllers: "aaaaa," + writer.Hash(), v1alpha1.AnnotationKeyControllerIDs: writer.ID()}
	assert.Equal(t, want, tr.controllers(s), "who is recorded stays")
	s.Annotations = map[string]string{v1alpha1.AnnotationKeyControllers: "aaaaa," + writer.Hash()}
	assert.Equal(t, map[string]string{v1alpha1.AnnotationKeyControllerIDs: writer.ID()}, tr.controllers(s), "an earlier release recorded no id")
	s.Annotations = want
	assert.Empty(t, tr.controllers(s), "recorded once, nothing is to be written")
}

// TestMemoryTouched covers KR-05-20.
func TestMemoryTouched(t *testing.T) {
	tr, now := clockedMemory()
	cached := func(version string) *states.Object {
		return &states.Object{State: &parent.State{ResourceVersion: version}}
	}
	assert.False(t, tr.Touched("u", cached("7")))
	tr.Touch(stored("u", "7"))
	assert.True(t, tr.Touched("u", cached("7")))
	assert.True(t, tr.Touched("u", nil))
	assert.False(t, tr.Touched("u", cached("8")), "the watch shows what was stored")
	tr.Touch(stored("u", "8"))
	assert.True(t, tr.Touched("u", cached("8")), "another write was stored before, so that this one was reviewed again")
	tr.Touch(stored("u", "1"))
	assert.True(t, tr.Touched("u", cached("8")), "forged")
	tr.Touch(stored("other", "no number"))
	assert.True(t, tr.Touched("other", cached("neither")))
	*now = now.Add(touchedFor)
	assert.False(t, tr.Touched("u", cached("8")), "the cache has it by now")
}

// stored object, with its UID and version alone.
func stored(uid, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": uid, "resourceVersion": version}}}
}

// A change through /scale is its user's, from the moment it landed until the
// object itself shows that (KR-01-09).
func TestMemoryScaled(t *testing.T) {
	tr, now := clockedMemory()
	ref := parent.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Name: "web", UID: "u"}
	stored := trace.Trace{trace.Hop(ref, 1, "hans@example.com", now.Add(-time.Hour))}
	state := func(version string, replicas int64) *parent.State {
		return &parent.State{Ref: ref, ResourceVersion: version, Generation: 2, Replicas: replicas,
			Annotations: map[string]string{v1alpha1.AnnotationKeyTrace: stored.String()}}
	}
	request := &admission.Request{
		Object:    &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "u"}, "spec": map[string]any{"replicas": int64(3)}}},
		OldObject: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": "7", "generation": int64(1)}}},
		User:      subject.User{Name: "alice@example.com"},
	}
	changes := []change.Change{{Path: "spec.replicas"}}
	tr.Scale(request, admission.Decision{Changes: changes})
	assert.True(t, tr.Touched("u", nil), "an intent prompts live reads")
	before := state("7", 1)
	assert.Same(t, before, tr.FillState(before), "it has not landed")
	assert.Equal(t, int64(1), hopOf(t, tr.FillState(state("8", 1))).Generation, "another write landed, not this one")
	hop := hopOf(t, tr.FillState(state("8", 3)))
	assert.Equal(t, "alice@example.com", hop.User)
	assert.EqualValues(t, 2, hop.Generation)
	assert.True(t, hop.Timestamp.Time.Equal(*now), "it was made when it was requested")
	tr.scaleRecorded("u")
	assert.Equal(t, "alice@example.com", hopOf(t, tr.FillState(state("8", 3))).User, "a request may have read it before")
	*now = now.Add(touchedFor + time.Second)
	assert.Equal(t, "hans@example.com", hopOf(t, tr.FillState(state("9", 3))).User, "the object shows it from now on")
}

// statusWrite by a user, on a version of an object with UID u.
func statusWrite(user string, generation int64, version string) *admission.Request {
	object := func(status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"uid": "u", "generation": generation, "resourceVersion": version}, "status": status,
		}}
	}
	return &admission.Request{User: subject.User{Name: user}, OldObject: object(nil), Object: object(map[string]any{"ready": true})}
}

// storeStatus has memory review a status write of version 7, and see it stored as version 8.
func storeStatus(m *Memory, req *admission.Request) bool {
	m.StatusReviewed(req, nil)
	o := req.Object.DeepCopy()
	o.SetResourceVersion("8")
	return m.StatusStored("7", parent.Sum(o, parent.RoleNone), states.StatusDigest(o.Object))
}

func landed(s *parent.State, version string) *parent.State { s.ResourceVersion = version; return s }

func idOf(user string) string { return subject.User{Name: user}.ID() }

func hopOf(t *testing.T, s *parent.State) v1alpha1.Hop {
	t.Helper()
	own := trace.Of(s.Annotations).Own()
	if own == nil {
		t.Fatal("no hop")
	}
	return *own
}

// TestMemoryEvictsInvented: what a client can invent goes before what requests and watches showed of parents.
func TestMemoryEvictsInvented(t *testing.T) {
	tr, _ := clockedMemory()
	tr.latch("settled", 1)
	for i := range 100 {
		tr.Touch(stored(fmt.Sprint("invented-", i), "1"))
	}
	for range 100 {
		tr.evict()
	}
	assert.EqualValues(t, 1, tr.Settled(parent.Ref{UID: "settled"}))
	assert.Len(t, tr.objects, 1)
	tr.evict()
	assert.Empty(t, tr.objects)
}
