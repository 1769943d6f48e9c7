package drift

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// TestResolverLogsOnce: why a Drift cannot be resolved is logged once, not in every round; again if the reason
// changes or comes back. Nothing is kept of Drifts that no longer exist.
func TestResolverLogsOnce(t *testing.T) {
	lines := 0
	r := &Resolver{Log: funcr.New(func(string, string) { lines++ }, funcr.Options{})}
	drift := func(uid types.UID) *v1alpha1.Drift { return &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	a, b := drift("a"), drift("b")
	forbidden, away := errors.New("forbidden"), errors.New("away")
	for i, step := range []struct {
		drift *v1alpha1.Drift
		err   error
		lines int
	}{
		{drift: a, err: forbidden, lines: 1}, {drift: a, err: forbidden, lines: 1},
		{drift: b, err: forbidden, lines: 2}, {drift: a, err: away, lines: 3},
		{drift: a, err: forbidden, lines: 4}, {drift: a, err: context.Canceled, lines: 4},
		{drift: a, lines: 4}, {drift: a, err: forbidden, lines: 5}, {drift: b, err: forbidden, lines: 5},
	} {
		if r.log(step.drift, step.err); lines != step.lines {
			t.Fatalf("step %d: %d lines, want %d", i, lines, step.lines)
		}
	}
	r.forget(&v1alpha1.DriftList{Items: []v1alpha1.Drift{*b}}, nil)
	if r.log(b, forbidden); lines != 5 || len(r.logged) != 1 {
		t.Errorf("%d lines, %v", lines, r.logged)
	}
	if r.log(a, forbidden); lines != 6 {
		t.Errorf("%d lines", lines)
	}
}

// TestResolverTurns: a Drift that waits for a live read is first in the next round, in whatever order the cache
// lists them, and delays none that needs no read.
func TestResolverTurns(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	r := &Resolver{Log: logr.Discard()}
	seen, free := map[string]int{}, 0
	for range len(names) {
		list := &v1alpha1.DriftList{}
		for _, i := range rand.Perm(len(names)) {
			list.Items = append(list.Items, v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: names[i]}})
		}
		over := v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bb"}, Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftResolved}}
		list.Items = append(list.Items, over)
		reads := 3
		r.next = r.each(inTurn(list, r.next), func(d *v1alpha1.Drift) error {
			switch {
			case d.Name == "d":
				free++
				return nil
			case reads == 0:
				return errNoReads
			}
			reads--
			seen[d.Name]++
			return nil
		})
	}
	if free != len(names) {
		t.Errorf("the Drift that needs no read got %d turns in %d rounds", free, len(names))
	}
	for _, n := range names {
		if want := 3 * len(names) / (len(names) - 1); n != "d" && seen[n] != want && seen[n] != want+1 {
			t.Errorf("%s got %d turns of %v", n, seen[n], seen)
		}
	}
	if seen["bb"] > 0 {
		t.Error("a resolved Drift got a turn")
	}
}

// memoryObjects are cached objects by name; a name that is missing does not exist, and "poison" panics.
type memoryObjects map[string]*parent.State

// Cached objects are all.
func (m memoryObjects) Cached(ref parent.Ref) *states.Object {
	if ref.Name == "poison" {
		panic("poison")
	}
	if s := m[ref.Name]; s != nil {
		return &states.Object{State: s}
	}
	return nil
}

// Look is Cached.
func (m memoryObjects) Look(_ context.Context, ref parent.Ref) (*states.Object, error) {
	if o := m.Cached(ref); o != nil {
		return o, nil
	}
	return nil, admission.ErrNotFound
}

// openDrift of a child below a parent, seen now.
func openDrift(name, parentName, childName string) *v1alpha1.Drift {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	return &v1alpha1.Drift{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1alpha1.DriftSpec{
			ID: name, Relation: v1alpha1.RelationControllerChild,
			Parent: v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "App", Namespace: "ns", Name: parentName},
			Child:  v1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: childName},
		},
		Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &now, LastSeen: &now, Count: 1},
	}
}

// testResolver of objects.
func testResolver(t *testing.T, c client.Client, objects Objects, log logr.Logger) *Resolver {
	t.Helper()
	reporter, err := NewReporter(Config{Client: c, Log: logr.Discard()})
	require.NoError(t, err)
	return &Resolver{Client: c, Objects: objects, Reporter: reporter, Log: log, reads: rate.NewLimiter(rate.Inf, 1),
		Unguarded: func(gvk schema.GroupVersionKind) bool { return gvk.Kind == "Unguarded" }}
}

// TestResolverRound: Drifts that are over are resolved with the reason, the others stay open, and one that
// panics costs no other its turn (KR-10-05, KR-13-02).
func TestResolverRound(t *testing.T) {
	unguarded := openDrift("unguarded", "app", "child")
	unguarded.Spec.Child.Kind = "Unguarded"
	external, externalGone := openDrift("external", "none", "child"), openDrift("external-gone", "app", "none")
	external.Spec.Relation, externalGone.Spec.Relation = v1alpha1.RelationExternal, v1alpha1.RelationExternal
	intent := openDrift("intent", "app", "child")
	intent.Spec.Intent = 2
	cases := map[string]struct {
		reason     string
		drift      *v1alpha1.Drift
		resolution string
	}{
		"ParentGone": {reason: "the parent does not exist", drift: openDrift("parent-gone", "none", "child"), resolution: "the parent is gone"},
		"ChildGone":  {reason: "nor anything that drifts", drift: openDrift("child-gone", "app", "none"), resolution: "the child was deleted"},
		"Unguarded":  {reason: "it is no longer reviewed", drift: unguarded, resolution: "its kind is no longer guarded"},
		"NewIntent":  {reason: "the parent has changed since", drift: intent, resolution: "the parent has a new intent"},
		"Open":       {reason: "nothing changed", drift: openDrift("open", "app", "child")},
		"External":   {reason: "the gate resolves it", drift: external},
		"ExternalGone": {reason: "the gate does not see its object any more", drift: externalGone,
			resolution: "the child was deleted"},
		"Panics": {reason: "it is tried again", drift: openDrift("a-panics", "poison", "child")},
	}
	var all []client.Object
	for _, tc := range cases {
		all = append(all, tc.drift)
	}
	c := driftClient(t, interceptor.Funcs{}, all...)
	app := &parent.State{Ref: parent.Ref{Name: "app"}, Annotations: map[string]string{
		v1alpha1.AnnotationKeyTrace: `[{"apiVersion":"example.org/v1","kind":"App","name":"app","generation":3,"user":"hans","timestamp":"2026-01-01T00:00:00Z"}]`}}
	lines := 0
	log := funcr.New(func(string, string) { lines++ }, funcr.Options{})
	r := testResolver(t, c, memoryObjects{"app": app, "child": {Ref: parent.Ref{Name: "child"}}}, log)
	for range 2 {
		require.NoError(t, r.round(t.Context()))
	}
	assert.Equal(t, 1, lines, "the panic, once")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := get(t, c, "ns", tc.drift.Name)
			assert.Equal(t, tc.resolution, got.Status.Resolution, tc.reason)
			assert.Equal(t, tc.resolution != "", got.Status.Phase == v1alpha1.DriftResolved, tc.reason)
		})
	}
}

// TestResolverTrims: a round deletes resolved Drifts beyond their bounds, and resolves open ones of the same
// child beyond theirs; f(f(x)) = f(x) (KR-10-06).
func TestResolverTrims(t *testing.T) {
	old := openDrift("old", "app", "child")
	long := metav1.NewTime(time.Now().Add(-keepResolved - time.Hour))
	old.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftResolved, LastSeen: &long}
	all := []client.Object{old}
	for i := range maxOpenPerChild + 1 {
		d := openDrift(fmt.Sprintf("open-%02d", i), "app", "child")
		at := metav1.NewTime(d.Status.LastSeen.Add(time.Duration(i) * time.Second))
		d.Status.LastSeen = &at
		all = append(all, d)
	}
	c := driftClient(t, interceptor.Funcs{}, all...)
	r := testResolver(t, c, memoryObjects{"app": {}, "child": {}}, logr.Discard())
	for range 2 {
		require.NoError(t, r.round(t.Context()))
		list := &v1alpha1.DriftList{}
		require.NoError(t, c.List(t.Context(), list))
		assert.Len(t, list.Items, maxOpenPerChild+1, "the old one is deleted")
		open := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == v1alpha1.DriftDetected {
				open++
			}
		}
		assert.Equal(t, maxOpenPerChild, open)
		assert.Equal(t, v1alpha1.DriftResolved, get(t, c, "ns", "open-00").Status.Phase, "the oldest")
	}
}

// TestResolverCompletes: a Drift whose status was never written gets its phase from the leader, once the replica that
// created it had its time, and is reported; one that is over is resolved, and never reported (KR-10-11).
func TestResolverCompletes(t *testing.T) {
	without := func(name, childName string, age time.Duration, relation v1alpha1.Relation) *v1alpha1.Drift {
		d := openDrift(name, "app", childName)
		d.Spec.Relation, d.Status = relation, v1alpha1.DriftStatus{}
		d.CreationTimestamp = metav1.NewTime(time.Now().Add(-age).Truncate(time.Second))
		return d
	}
	const controller, external = v1alpha1.RelationControllerChild, v1alpha1.RelationExternal
	cases := map[string]struct {
		reason   string
		drift    *v1alpha1.Drift
		phase    v1alpha1.DriftPhase
		reported bool
	}{
		"Fresh":    {reason: "its replica is about to write it", drift: without("fresh", "child", time.Second, controller)},
		"Old":      {reason: "nothing else writes it", drift: without("old", "child", time.Minute, controller), phase: v1alpha1.DriftDetected, reported: true},
		"External": {reason: "the same", drift: without("external", "child", time.Minute, external), phase: v1alpha1.DriftDetected, reported: true},
		"Over":     {reason: "no endpoint knows of it", drift: without("over", "none", time.Minute, controller), phase: v1alpha1.DriftResolved},
	}
	var all []client.Object
	for _, tc := range cases {
		all = append(all, tc.drift)
	}
	c := driftClient(t, interceptor.Funcs{}, all...)
	e, sender := newTestEndpoint(t)
	var recurred []string
	app := &parent.State{Ref: parent.Ref{Name: "app"}}
	r := testResolver(t, c, memoryObjects{"app": app, "child": {Ref: parent.Ref{Name: "child"}}}, logr.Discard())
	to := deliveriesTo(c, sender)
	r.Reporter = started(t, Config{Client: c, Receivers: []string{sender.Name}, Recurred: func(_ context.Context, _ parent.Ref, id string) error {
		recurred = append(recurred, id)
		return nil
	}})
	require.NoError(t, r.round(t.Context()))
	reported := map[string]bool{}
	for _, one := range e.sent(t, to) {
		assert.Equal(t, v1alpha1.DriftDetected, one.Spec.Phase)
		reported[one.Spec.ID] = true
	}
	require.NoError(t, r.round(t.Context()))
	for name, tc := range cases {
		got := get(t, c, "ns", tc.drift.Name)
		assert.Equal(t, tc.phase, got.Status.Phase, "%s: %s", name, tc.reason)
		assert.Equal(t, tc.reported, reported[tc.drift.Name], "%s: %s", name, tc.reason)
		if tc.phase == v1alpha1.DriftDetected {
			assert.True(t, got.Status.Since.Equal(&tc.drift.CreationTimestamp), "since it was created")
			assert.EqualValues(t, 1, got.Status.Count)
			assert.Contains(t, recurred, tc.drift.Name, "it can be approved again")
		}
	}

	app.Annotations = map[string]string{v1alpha1.AnnotationKeySnooze: `{"expiry":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`}
	require.NoError(t, c.Create(t.Context(), without("snoozed", "child", time.Minute, controller)))
	require.NoError(t, r.round(t.Context()))
	assert.Empty(t, e.sent(t, to)[2:], "a snoozed one is not reported")

	app.Annotations = nil // the snooze is over
	require.NoError(t, r.round(t.Context()))
	assert.False(t, get(t, c, "ns", "snoozed").Status.Snoozed)
	assert.Equal(t, "snoozed", e.sent(t, to)[2].Spec.ID, "it is still open (KR-10-15)")
}
