package view

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/actor"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/lists"
)

const (
	// freshFor is how long a list is shown at least before it is read again.
	freshFor = 5 * time.Second
	// againFor bounds how long it is read again before what is known is shown.
	againFor = 10 * time.Second
	// share of the time in which it is read what no watch reports: one part in so many, so that a large cluster is not kept busy by an open view.
	share = 20
)

// View is what a user sees of the cluster, read and decided with the rights of that user. It is safe for concurrent use.
type View struct {
	*reader
	actor *actor.Actor
}

// reader of the cluster as the user of the view.
type reader struct {
	options Options
	client  dynamic.Interface
	lister  *lister
	// live: the watches report what changes, and the snapshot is read again then.
	live atomic.Bool
	// have is what was read last; nil for nothing.
	have atomic.Pointer[Snapshot]
	// written is how often the user has written.
	written atomic.Uint64

	// mu is held while it is read again.
	mu sync.Mutex
	// ruled is what was decided, by parent, until it is read again: also once the user has written more often.
	ruled        *inspect.Rulings
	ruledTo      time.Time
	ruledWritten uint64

	coverage struct {
		mu   sync.Mutex
		have *inspect.Coverage
		at   time.Time
	}
}

// Cause of changes, with what was decided about them.
type Cause struct {
	*channel.Card
	Changes []*v1alpha1.Drift
	Ruling  func(*v1alpha1.Drift) channel.Ruling
}

// Snapshot of what waits. It is not modified once it is returned.
type Snapshot struct {
	// At is when reading it began; it is fresh until to.
	At time.Time
	to time.Time
	// written is how often the user had written when reading it began: what was written later it need not have.
	written uint64
	Causes  []*Cause
	// Behind are changes that no approval lets pass.
	Behind []inspect.Behind
	// Unread are sentences about what is not listed.
	Unread []string
	Total  int
	// Away is why it could not be read again; nil where it is fresh.
	Away error
	// Sum of what is shown: another one is to be shown again.
	Sum uint64
}

// New View of a user.
func New(o Options) (*View, error) {
	if o.Now == nil {
		o.Now = clock.Now
	}
	a, err := actor.New(o.Config, o.Mapper, o.Manager)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client: %w", err)
	}
	r := &reader{options: o, client: client, lister: &lister{options: o, client: client, watches: newWatches(client), held: map[string]heldIn{}}}
	return &View{reader: r, actor: a}, nil
}

// Pending returns the pending changes: as the watches have reported them, else read at most freshFor ago. Where they cannot be read, the error is returned
// with what was read last; nil for nothing.
func (r *reader) Pending(ctx context.Context) (*Snapshot, error) {
	if s := r.fresh(); s != nil {
		return s, s.Away
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.fresh(); s != nil { // another request has read it meanwhile
		return s, s.Away
	}
	return r.again(ctx)
}

// fresh snapshot; nil where it is to be read again.
func (r *reader) fresh() *Snapshot {
	s := r.have.Load()
	if s == nil || s.written != r.written.Load() || !r.live.Load() && (s.Away != nil || !r.options.Now().Before(s.to)) {
		return nil
	}
	return s
}

// again read what waits. mu is held.
func (r *reader) again(ctx context.Context) (*Snapshot, error) {
	have := r.have.Load()
	if have != nil { // which is shown where the API server does not answer soon
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, againFor)
		defer cancel()
	}
	written := r.written.Load()
	if written != r.ruledWritten {
		r.ruledWritten, r.ruledTo = written, time.Time{}
		r.lister.forget()
	}
	began := r.options.Now()
	s, err := r.read(ctx, began)
	if err != nil {
		if have == nil || kerrors.IsForbidden(err) || kerrors.IsUnauthorized(err) { // what may not be read any more is not shown
			r.have.Store(nil)
			return nil, err
		}
		last := *have
		last.Away = err
		s = &last
	}
	ended := r.options.Now()
	s.to = ended.Add(max(freshFor, ended.Sub(began))) // it is not read more than half of the time
	s.written, s.Sum = written, s.summed()
	r.have.Store(s)
	return s, err
}

// read reads what waits, and what was decided about it.
func (r *reader) read(ctx context.Context, now time.Time) (*Snapshot, error) {
	w, err := r.lister.list(ctx, now)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{At: now, Behind: w.Behind, Total: len(w.Drifts)}
	s.Unread = lists.Map(w.Unread, error.Error)
	if r.lister.spaces != nil {
		s.Unread = append(s.Unread, "You may not list changes of the whole cluster. Listed are those of "+channel.Plural(len(r.lister.spaces), "Namespace")+".")
	}
	groups := channel.ByCause(w.Drifts)
	if r.options.Early != nil && r.have.Load() == nil {
		early := *s
		early.Unread = append(slices.Clone(s.Unread), "Whether changes are rejected, frozen or snoozed is being read.")
		early.Causes = causesOf(groups, func(*v1alpha1.Drift) channel.Ruling { return channel.Ruling{} })
		r.options.Early(&early)
	}
	rulings, err := r.rulings(ctx, w.Drifts, s, now)
	if err != nil {
		return nil, err
	}
	s.Causes = causesOf(groups, rulings)
	return s, nil
}

// causesOf returns the causes of groups of changes.
func causesOf(groups []*channel.Group, rulings func(*v1alpha1.Drift) channel.Ruling) []*Cause {
	return lists.Map(groups, func(g *channel.Group) *Cause {
		return &Cause{Card: channel.CardOf(g, rulings, ""), Changes: g.Drifts, Ruling: rulings}
	})
}

// summed content of a snapshot, but for its time.
func (s *Snapshot) summed() uint64 {
	h := fnv.New64a()
	for _, c := range s.Causes {
		fmt.Fprintln(h, c.Key, c.Counts, c.Causes, c.Decided)
		for _, d := range c.Changes {
			fmt.Fprintln(h, d.Namespace, d.Name, d.ResourceVersion, channel.State(d, c.Ruling(d)))
		}
	}
	for n := range s.Behind {
		fmt.Fprintln(h, s.Behind[n].Reason, s.Behind[n].ID, channel.Describe(s.Behind[n].Child))
	}
	fmt.Fprintln(h, s.Unread, s.Away != nil)
	return h.Sum64()
}

// forget forgets what was read, since something was written.
func (r *reader) forget() { r.written.Add(1) }

// StateOf returns the state of an error, as the user is shown it in place of what could not be read (KR-17-16).
func (r *reader) StateOf(err error) *State { return r.options.stateOf(err) }

// inspector returns the inspector of the cluster as it is now.
func (r *reader) inspector(ctx context.Context) (*inspect.Inspector, error) {
	return inspect.New(ctx, r.options.Config, inspect.Options{Mapper: r.options.Mapper, DefaultMode: r.options.DefaultMode, Now: r.options.Now})
}

// rulings returns the rulings of changes; what cannot be read is unread. Each parent is read again after some time.
func (r *reader) rulings(ctx context.Context, list []v1alpha1.Drift, s *Snapshot, now time.Time) (func(*v1alpha1.Drift) channel.Ruling, error) {
	began, again := r.options.Now(), r.ruled == nil || !now.Before(r.ruledTo)
	if again {
		i, err := r.inspector(ctx)
		if err != nil {
			return nil, err
		}
		r.ruled = i.Rulings()
	}
	of, err := r.ruled.Of(ctx, list)
	if err != nil {
		r.ruled = nil
		return nil, err
	}
	if again {
		r.ruledTo = r.options.until(began)
	}
	for _, err := range r.ruled.Unread {
		s.Unread = append(s.Unread, "Whether changes are rejected, frozen or snoozed is unknown where the parent cannot be read: "+err.Error())
	}
	return of, nil
}

// stored returns the change with an id as it is stored now, or as the composition function holds it; nil for none. Resolved Drifts are returned, too.
func (r *reader) stored(ctx context.Context, ns, id string) (*v1alpha1.Drift, error) {
	u, err := r.client.Resource(inspect.DriftResource).Namespace(ns).Get(ctx, id, metav1.GetOptions{})
	var d *v1alpha1.Drift
	switch {
	case err == nil:
		if d, err = inspect.DriftOf(u); err != nil || channel.Open(d) {
			return d, err
		}
	case !kerrors.IsNotFound(err):
		return nil, fmt.Errorf("cannot read drift %s: %w", id, err)
	}
	held, err := inspect.Held(ctx, r.client, r.options.Mapper, ns)
	if err != nil {
		return nil, err
	}
	for i := range held.Drifts {
		if h := &held.Drifts[i]; h.Name == id && h.Namespace == ns {
			return h, nil
		}
	}
	return d, nil
}

// object returns the object that a reference names; the error is NotFound where there is none, or another one has its name.
func (r *reader) object(ctx context.Context, ref v1alpha1.ObjectReference) (*unstructured.Unstructured, error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	m, err := r.options.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, &State{Status: http.StatusNotFound, Title: "There is no such kind", Text: fmt.Sprintf("The cluster serves no %s: %s", gvk.GroupKind(), err)}
	}
	if ref.Name == "" {
		return nil, errUnnamed
	}
	o, err := inspect.ClientOf(r.client, m, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", channel.Describe(ref), err)
	}
	return o, nil
}

// errUnnamed is the error of an object that has no name yet.
var errUnnamed = errors.New("it does not exist yet, and its name is generated")
