package drift

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// maxDetailed is the number of Drifts of which each path is remembered. Nothing is evicted: of any further one the
// child is held as a whole, in one entry for all of its differences (KR-05-55).
const maxDetailed = 20_000

// Memory is what the open Drifts of the cluster hold: differences that were refused or logged as drift, which a later
// intent does not allow (KR-05-66). Every replica has all of it, from its watch of Drifts, and what it refused itself
// from the moment of the refusal on. It is safe for concurrent use.
type Memory struct {
	mu       sync.RWMutex
	children map[child]map[string]*remembered // by key
	parents  map[owner]map[string]*remembered
	keys     map[string]*remembered
	// known differences that were refused or reported, by id.
	known map[string]known
	begun bool
	// lost is called with each Drift that is gone, and of which what it holds is kept; nil where nothing is kept. It is set before the first.
	lost func(*v1alpha1.Drift)
}

// keyOf a difference: its digest, since another may have the same id (KR-13-68).
func keyOf(d *v1alpha1.DriftSpec) string { return cmp.Or(d.Digest, d.ID) }

// begin to answer: the Drifts are read, or cannot be.
func (m *Memory) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = true
}

// Ready once the Drifts are read: before, what was held when this replica started is not known to it.
func (m *Memory) Ready(*http.Request) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.begun {
		return errors.New("the drifts are not read yet")
	}
	return nil
}

// child of a remembered difference, with the operation that was refused.
type child struct {
	schema.GroupKind
	namespace, name string
	// uid is empty for a creation.
	uid       types.UID
	operation admission.Operation
	// parent and resource identify a creation without a name.
	parent   types.UID
	resource string
}

// owner of a remembered difference. The namespace is left to the comparison: references may lack it.
type owner struct {
	schema.GroupKind
	name string
}

// remembered difference.
type remembered struct {
	key   string
	child child
	owner owner
	// namespace and uid of the owner.
	namespace string
	uid       types.UID
	held      *admission.Held
	seen      time.Time
	// stored: a Drift has it. Otherwise this replica refused it at this time.
	stored bool
}

// NewMemory returns a Memory that is empty.
func NewMemory() *Memory {
	return &Memory{children: map[child]map[string]*remembered{}, parents: map[owner]map[string]*remembered{}, keys: map[string]*remembered{},
		known: map[string]known{}}
}

// Held returns what is held of the child of a request, for its operation; nil for nothing. Of several values of one path it has the last
// one that was refused.
func (m *Memory) Held(req *admission.Request) *admission.Held {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.keys) == 0 {
		return nil
	}
	of := m.children[childOf(req)]
	if len(of) == 0 {
		return nil
	}
	out := &admission.Held{Values: map[string]string{}}
	for _, e := range slices.SortedFunc(maps.Values(of), bySeen) {
		maps.Copy(out.Values, e.held.Values)
		out.Whole = out.Whole || e.held.Whole
		if since := e.held.Since; since.Generation > 0 && (out.Since.Generation == 0 || since.Generation < out.Since.Generation) {
			out.Since = since
		}
	}
	return out
}

// bySeen orders differences by when they were last seen.
func bySeen(a, b *remembered) int { return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.key, b.key)) }

// Again reports whether all that was refused is remembered. If so, it notes that it was refused again now.
func (m *Memory) Again(r *admission.Report) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, digest := m.known[r.Drift.ID], change.Digest(r.Drift.Digest)
	if !k.Is() || digest != "" && !slices.Contains(k.Digests, digest) || r.Requester != "" && !slices.Contains(k.Requesters, r.Requester) {
		return false
	}
	if len(r.Held.Drift) == 0 {
		return true
	}
	e := m.keys[keyOf(&r.Drift)]
	if e != nil {
		again := *e // readers may have it
		again.seen = clock.Now()
		m.put(&again)
	}
	return e != nil
}

// Remember what a request was refused, until a Drift shows it and its end.
func (m *Memory) Remember(r *admission.Report) {
	if r.Drift.ID == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(identity.DriftNamespace(r.ParentRef.Namespace, r.Drift.Child.Namespace), false, &r.Drift, r.Requester)
	if held := admission.HeldOf(r.Held); held != nil && m.keys[keyOf(&r.Drift)] == nil {
		m.put(entryOf(&r.Drift, held, clock.Now()))
	}
}

// put an entry; the caller holds the lock.
func (m *Memory) put(e *remembered) {
	m.forget(e.key)
	if len(m.keys) >= maxDetailed {
		e.held = &admission.Held{Whole: true, Since: e.held.Since}
		for _, had := range m.children[e.child] { // one of each child is enough
			e.key, e.owner, e.namespace, e.uid, e.stored = had.key, had.owner, had.namespace, had.uid, had.stored
			if since := had.held.Since; since.Generation > 0 && since.Generation < e.held.Since.Generation {
				e.held.Since = since
			}
			m.forget(had.key)
			break
		}
	}
	m.keys[e.key] = e
	if m.children[e.child] == nil {
		m.children[e.child] = map[string]*remembered{}
	}
	m.children[e.child][e.key] = e
	if m.parents[e.owner] == nil {
		m.parents[e.owner] = map[string]*remembered{}
	}
	m.parents[e.owner][e.key] = e
}

// forget a difference by its key; the caller holds the lock.
func (m *Memory) forget(key string) {
	e := m.keys[key]
	if e == nil {
		return
	}
	delete(m.keys, key)
	if delete(m.children[e.child], key); len(m.children[e.child]) == 0 {
		delete(m.children, e.child)
	}
	if delete(m.parents[e.owner], key); len(m.parents[e.owner]) == 0 {
		delete(m.parents, e.owner)
	}
}

// OnAdd is called for each Drift that is watched.
func (m *Memory) OnAdd(o any, _ bool) { m.OnUpdate(nil, o) }

// OnUpdate is called for each change of a Drift.
func (m *Memory) OnUpdate(_, o any) {
	d, ok := o.(*v1alpha1.Drift)
	if !ok || d.Status.Phase == "" {
		return // not recorded yet
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.Status.Phase != v1alpha1.DriftResolved {
		m.note(d.Namespace, true, &d.Spec, d.Status.Requesters...)
		if d.Status.Held != nil {
			e := entryOf(&d.Spec, admission.HeldOf(*d.Status.Held), lastSeen(d))
			if e.stored = true; e.held != nil {
				if had := m.keys[e.key]; had != nil && had.seen.After(e.seen) { // a Drift has whole seconds, and not every time
					e.seen = had.seen
				}
				m.put(e)
			}
		}
		return
	}
	if !resolvedByUs(d) || !m.knows(d) {
		return // what another user resolves, or another Drift of that name, is held as before (KR-13-67)
	}
	for _, key := range m.removeKnown(&d.Spec) {
		// What this replica has just refused again is newer than the end of an earlier occurrence.
		if e := m.keys[key]; e != nil && (e.stored || !lastSeen(d).Before(e.seen.Truncate(time.Second))) {
			m.forget(key)
		}
	}
}

// OnDelete is called where a Drift is gone.
func (m *Memory) OnDelete(o any) {
	d, ok := informer.Last[*v1alpha1.Drift](o)
	if !ok {
		return
	}
	if d.Status.Phase != v1alpha1.DriftResolved && m.lost != nil && m.keep(d) {
		m.lost(d)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.knows(d) {
		return
	}
	for _, key := range m.removeKnown(&d.Spec) {
		if e := m.keys[key]; e != nil && e.stored {
			m.forget(key)
		}
	}
}

// keep what a Drift held that is gone; false where it held nothing.
func (m *Memory) keep(d *v1alpha1.Drift) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.knows(d) {
		return false
	}
	if k, is := m.known[d.Spec.ID]; is {
		k.stored = false
		m.known[d.Spec.ID] = k
	}
	e := m.keys[keyOf(&d.Spec)]
	if e == nil {
		return len(m.known[d.Spec.ID].Requesters) > 0
	}
	kept := *e // readers may have it
	kept.stored = false
	m.put(&kept)
	return true
}

// Forget what was held: what it is about is gone.
func (m *Memory) Forget(d *v1alpha1.DriftSpec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.removeKnown(d) {
		m.forget(key)
	}
}

// Below returns what is held of the children of a parent, sorted; own as in admission.Below.
func (m *Memory) Below(ref parent.Ref, own bool) (out []admission.Below) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, e := range m.parents[owner{ref.GroupKind(), ref.Name}] {
		if e.namespace != "" && e.namespace != ref.Namespace || ref.UID != "" && e.uid != "" && ref.UID != e.uid {
			continue
		}
		c := e.child
		b := admission.Below{Child: identity.Describe(parent.Ref{GroupVersionKind: c.WithVersion(""), Namespace: c.namespace, Name: c.name}),
			Operation: c.operation, ID: change.Digest(e.key).ID(), Since: e.held.Since.Generation, Own: own}
		b.Digest = change.Digest(change.Digest(e.key).Whole())
		if !e.held.Whole {
			b.Paths = slices.Sorted(maps.Keys(e.held.Values))
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b admission.Below) int { return cmp.Or(cmp.Compare(a.Child, b.Child), cmp.Compare(a.ID, b.ID)) })
	return out
}

// childOf a request.
func childOf(req *admission.Request) child {
	ref := req.Ref()
	c := child{GroupKind: ref.GroupKind(), namespace: ref.Namespace, name: ref.Name, uid: ref.UID, operation: req.Operation}
	if req.Operation == admission.Create {
		c.uid = ""
	}
	if c.name == "" {
		c.resource = req.Resource()
		if p, ok := parent.Of(req.Current(), parent.RoleNone); ok {
			c.parent = p.UID
		}
	}
	return c
}

// entryOf a difference.
func entryOf(d *v1alpha1.DriftSpec, held *admission.Held, seen time.Time) *remembered {
	c := child{
		GroupKind: schema.FromAPIVersionAndKind(d.Child.APIVersion, d.Child.Kind).GroupKind(), namespace: d.Child.Namespace, name: d.Child.Name,
		uid: d.Child.UID, operation: admission.Operation(d.Operation),
	}
	if c.operation == admission.Create {
		c.uid = ""
	}
	if c.name == "" {
		c.parent, c.resource = d.Parent.UID, d.Child.Resource
	}
	gk := schema.FromAPIVersionAndKind(d.Parent.APIVersion, d.Parent.Kind).GroupKind()
	return &remembered{
		key: keyOf(d), child: c, owner: owner{gk, d.Parent.Name}, namespace: d.Parent.Namespace, uid: d.Parent.UID, held: held, seen: seen,
	}
}
