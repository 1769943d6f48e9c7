package drift

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// liveObjects by name; poison is an error.
type liveObjects map[string]*parent.State

func (l liveObjects) Get(_ context.Context, ref parent.Ref, _ bool) (*states.Object, error) {
	if ref.Name == "poison" {
		return nil, errors.New("timeout")
	}
	if s := l[ref.Name]; s != nil && s.UID == ref.UID {
		return &states.Object{State: s}, nil
	}
	return nil, admission.ErrNotFound
}

// TestRestorer covers KR-13-67: what a Drift holds that is deleted is held, and the leader restores it, while what it is about exists.
func TestRestorer(t *testing.T) {
	now := time.Now()
	terminating := &parent.State{Ref: parent.Ref{Name: "app", UID: "p"}, DeletedAt: &now}
	app, one := &parent.State{Ref: parent.Ref{Name: "app", UID: "p"}}, &parent.State{Ref: parent.Ref{Name: "one", UID: "u"}}
	cases := map[string]struct {
		reason   string
		objects  liveObjects
		follower bool
		resolved bool // before it is deleted
		restored bool
		held     bool
	}{
		"Leader":     {reason: "the leader", objects: liveObjects{"app": app, "one": one}, restored: true, held: true},
		"Follower":   {reason: "another replica keeps it in memory", objects: liveObjects{"app": app, "one": one}, follower: true, held: true},
		"ParentGone": {reason: "no parent is left", objects: liveObjects{"one": one}},
		"Deleting":   {reason: "or is being deleted", objects: liveObjects{"app": terminating, "one": one}},
		"ChildGone":  {reason: "no child", objects: liveObjects{"app": app}},
		"OtherChild": {reason: "but another one of its name", objects: liveObjects{"app": app, "one": {Ref: parent.Ref{Name: "one", UID: "other"}}}},
		"Over":       {reason: "it was over", objects: liveObjects{"app": app, "one": one}, resolved: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := driftClient(t, interceptor.Funcs{})
			elected := make(chan struct{})
			if !tc.follower {
				close(elected)
			}
			m := NewMemory()
			r := &restorer{states: tc.objects, client: c, memory: m, elected: elected}
			var err error
			r.queue, err = newQueue("restorer-"+name, 1, 1, logr.Discard(), r.handle)
			require.NoError(t, err)
			m.lost = func(d *v1alpha1.Drift) { assert.NoError(t, r.handle(t.Context(), deleted{d, clock.Now()})) }
			d := stored("a", 0, heldPath("spec.x", "1", 3))
			d.Status.Requesters, d.Status.Count = []string{"anna"}, 7
			m.OnAdd(d, true)
			if tc.resolved {
				d = resolvedDrift(d)
				m.OnUpdate(nil, d)
			}
			m.OnDelete(d)
			assert.Equal(t, tc.held, m.Held(update("u")) != nil, tc.reason)
			assert.Equal(t, tc.held, len(m.Known("a").Requesters) > 0, tc.reason)
			waits := 0
			if tc.follower {
				waits = 1 // it may lead later
			}
			assert.Equal(t, waits, r.queue.len(), tc.reason)
			got := &v1alpha1.Drift{}
			err = c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, got)
			if !tc.restored {
				assert.Error(t, err, tc.reason)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, d.Status, got.Status, "what its receivers know of it stays, too")
			m.OnAdd(got, false)
			m.OnUpdate(nil, resolvedDrift(got))
			assert.Nil(t, m.Held(update("u")), "until it is over")
		})
	}
}

// What cannot be read is tried again, and held meanwhile (KR-13-67).
func TestRestorerTriesAgain(t *testing.T) {
	m := NewMemory()
	r := &restorer{states: liveObjects{}, memory: m, elected: make(chan struct{})}
	var err error
	r.queue, err = newQueue("restorer-test", 1, 1, logr.Discard(), r.handle)
	require.NoError(t, err)
	d := stored("a", 0, heldPath("spec.x", "1", 3))
	d.Spec.Parent.Name = "poison"
	m.lost = func(d *v1alpha1.Drift) {
		assert.ErrorContains(t, r.handle(t.Context(), deleted{d, clock.Now()}), "timeout")
	}
	m.OnAdd(d, true)
	m.OnDelete(d)
	assert.NotNil(t, m.Held(update("u")))
	assert.Equal(t, 1, r.queue.len())
	r.queue.take("a")
	assert.Error(t, r.handle(t.Context(), deleted{d, clock.Now().Add(-retryFor)}))
	assert.Zero(t, r.queue.len(), "but not for ever")
}

// A Drift whose status could not be restored with it gets it later, and one that occurred again keeps its own (KR-13-67).
func TestRestorerOfAStatus(t *testing.T) {
	fails := true
	patch := func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if fails {
			fails = false
			return errors.New("timeout")
		}
		return w.SubResource(sub).Patch(ctx, o, p, opts...)
	}
	c := driftClient(t, interceptor.Funcs{SubResourcePatch: patch})
	r := &restorer{client: c}
	d := stored("a", 0, heldPath("spec.x", "1", 3))
	get := func() v1alpha1.DriftStatus {
		got := &v1alpha1.Drift{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(d), got))
		return got.Status
	}
	assert.ErrorContains(t, r.restore(t.Context(), d), "timeout")
	assert.Empty(t, get().Phase)
	require.NoError(t, r.restore(t.Context(), d))
	assert.Equal(t, d.Status, get())
	d.Status.Count = 99
	require.NoError(t, r.restore(t.Context(), d))
	assert.NotEqual(t, d.Status.Count, get().Count, "what was recorded since counts")
}

// A Drift of that name in another Namespace ends nothing (KR-13-67).
func TestDriftOfAnotherNamespace(t *testing.T) {
	d := stored("a", 0, heldPath("spec.x", "1", 3))
	d.Status.Requesters = []string{"anna"}
	fake := d.DeepCopy()
	fake.Namespace = "default"
	for name, end := range map[string]func(*Memory){
		"Resolved": func(m *Memory) { m.OnUpdate(nil, resolvedDrift(fake)) },
		"Deleted":  func(m *Memory) { m.OnDelete(resolvedDrift(fake)) },
		"Lost":     func(m *Memory) { m.OnDelete(fake) },
	} {
		m := NewMemory()
		m.lost = func(*v1alpha1.Drift) { t.Errorf("%s: it is restored", name) }
		m.OnAdd(d, true)
		end(m)
		assert.NotNil(t, m.Held(update("u")), name)
		assert.Equal(t, []string{"anna"}, m.Known("a").Requesters, name)
	}
}

// What another user resolves in the Drift alone is held as before (KR-13-67).
func TestResolvedByOthers(t *testing.T) {
	for manager, held := range map[string]bool{"kubectl-edit": true, "kausality": false, "kausality-webhook": false, "": false} {
		m := NewMemory()
		m.OnAdd(stored("a", 0, heldPath("spec.x", "1", 3)), true)
		d := stored("a", 0, heldPath("spec.x", "1", 3))
		if at := metav1.Now(); manager != "" {
			before := metav1.NewTime(at.Add(-1e9))
			d.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: manager, Subresource: "status", Time: &at}, {Manager: "kausality", Subresource: "status", Time: &before},
				{Manager: "kubectl-label", Time: &at},
			}
		}
		m.OnUpdate(nil, resolvedDrift(d))
		assert.Equal(t, held, m.Held(update("u")) != nil, manager)
	}
}

// Past the bound of open Drifts the newest one holds the whole child (KR-13-67).
func TestSupersededHold(t *testing.T) {
	at := func(name string, since int64, path string) *v1alpha1.Drift {
		d := stored(name, 0, v1alpha1.HeldDrift{})
		if d.Status.Held = nil; path != "" {
			held := heldPath(path, "1", since)
			d.Status.Held = &held
		}
		return d
	}
	whole := &v1alpha1.HeldDrift{Drift: map[string]string{v1alpha1.HeldWhole: ""}, Since: &v1alpha1.SettledIntent{Generation: 2}}
	old, newest := at("a", 2, "spec.x"), at("b", 5, "spec.y")
	s := superseded{drifts: []*v1alpha1.Drift{old}, by: []*v1alpha1.Drift{old, newest}}
	d, held := s.holder()
	assert.Equal(t, newest, d)
	assert.Equal(t, whole, held)
	newest.Status.Held = whole
	d, _ = s.holder()
	assert.Nil(t, d, "it holds the whole child already")
	d, _ = superseded{drifts: []*v1alpha1.Drift{old}, by: []*v1alpha1.Drift{old, at("c", 5, "spec.x")}}.holder()
	assert.Nil(t, d, "another value of the same path is held")
	none := at("c", 0, "")
	d, _ = superseded{drifts: []*v1alpha1.Drift{none}, by: []*v1alpha1.Drift{none, at("d", 3, "spec.y")}}.holder()
	assert.Nil(t, d, "what is superseded holds nothing")
}
