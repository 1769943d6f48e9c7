package page

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/cluster"
)

const (
	// freshFor is how long a list is shown before it is read again.
	freshFor = 5 * time.Second
	// againFor bounds how long it is read again before what is known is shown.
	againFor = 10 * time.Second
	// spacesFor is how long it is known which Namespaces the user may list.
	spacesFor = time.Minute
	// maxReads of Namespaces at a time.
	maxReads = 8
)

// reader of the cluster as the user of the page.
type reader struct {
	options Options
	client  dynamic.Interface

	mu sync.Mutex
	// have is what was read last; nil for nothing.
	have *snapshot
	// spaces that the user may list; nil for the whole cluster. Known since spacesAt; zero for unknown.
	spaces   []string
	spacesAt time.Time
}

// snapshot of what waits.
type snapshot struct {
	at     time.Time
	cards  []*channel.Card
	behind []inspect.Behind
	// unread are sentences about what is not listed.
	unread []string
	total  int
}

func newReader(o Options) (*reader, error) {
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client: %w", err)
	}
	return &reader{options: o, client: client}, nil
}

// pending changes, read at most freshFor ago. Where they cannot be read, the error is returned with what was read last; nil for nothing.
func (r *reader) pending(ctx context.Context) (*snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Now()
	if r.have != nil && now.Sub(r.have.at) < freshFor {
		return r.have, nil
	}
	if r.have != nil { // which is shown where the API server does not answer soon
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, againFor)
		defer cancel()
	}
	w, err := r.list(ctx, now)
	if err != nil {
		return r.have, err
	}
	s := &snapshot{at: now, behind: w.Behind, total: len(w.Drifts)}
	for _, err := range w.Unread {
		s.unread = append(s.unread, err.Error())
	}
	if r.spaces != nil {
		s.unread = append(s.unread, "You may not list changes of the whole cluster. Listed are those of "+channel.Plural(len(r.spaces), "Namespace")+".")
	}
	rulings, err := r.rulings(ctx, w.Drifts, s)
	if err != nil {
		return r.have, err
	}
	for _, g := range channel.ByCause(w.Drifts) {
		s.cards = append(s.cards, channel.CardOf(g, rulings, ""))
	}
	r.have = s
	return s, nil
}

// forget what was read, since something was written.
func (r *reader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.have != nil {
		r.have.at = time.Time{}
	}
}

// list what waits in the whole cluster or, where the user may not list that, in the Namespaces that they may (KR-17-14).
func (r *reader) list(ctx context.Context, now time.Time) (inspect.Waiting, error) {
	if r.spaces == nil || now.Sub(r.spacesAt) > spacesFor {
		w, err := inspect.Pending(ctx, r.client, r.options.Mapper, metav1.NamespaceAll)
		if !kerrors.IsForbidden(err) {
			r.spaces = nil
			return w, err
		}
		if r.spaces, err = r.namespaces(ctx); err != nil {
			return w, err
		}
		r.spacesAt = now
	}
	lists, errs := make([]inspect.Waiting, len(r.spaces)), make([]error, len(r.spaces))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for n, ns := range r.spaces {
		group.Go(func() error {
			if lists[n], errs[n] = inspect.Pending(ctx, r.client, r.options.Mapper, ns); !kerrors.IsForbidden(errs[n]) {
				return errs[n]
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return inspect.Waiting{}, err
	}
	return r.readable(lists, errs)
}

// readable lists together, of the Namespaces that the user may list, which are kept.
func (r *reader) readable(lists []inspect.Waiting, errs []error) (out inspect.Waiting, err error) {
	var may []string
	for n, ns := range r.spaces {
		if errs[n] != nil {
			err = errs[n]
			continue
		}
		may = append(may, ns)
		out.Drifts, out.Behind = append(out.Drifts, lists[n].Drifts...), append(out.Behind, lists[n].Behind...)
		for _, unread := range lists[n].Unread {
			if !slices.ContainsFunc(out.Unread, func(have error) bool { return have.Error() == unread.Error() }) {
				out.Unread = append(out.Unread, unread)
			}
		}
	}
	if len(may) == 0 {
		r.spaces = nil
		return out, err
	}
	r.spaces = may
	return out, nil
}

// namespaces of the cluster, or that of the kubeconfig where the user may not list them.
func (r *reader) namespaces(ctx context.Context) (out []string, err error) {
	for o, err := range cluster.Items(ctx, r.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}), cluster.PageSize) {
		if kerrors.IsForbidden(err) {
			return []string{r.options.Namespace}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list Namespaces: %w", err)
		}
		out = append(out, o.GetName())
	}
	return out, nil
}

// inspector of the cluster as it is now.
func (r *reader) inspector(ctx context.Context) (*inspect.Inspector, error) {
	return inspect.New(ctx, r.options.Config, inspect.Options{Mapper: r.options.Mapper, DefaultMode: r.options.DefaultMode, Now: r.options.Now})
}

// rulings of changes; what cannot be read is unread.
func (r *reader) rulings(ctx context.Context, list []v1alpha1.Drift, s *snapshot) (func(*v1alpha1.Drift) channel.Ruling, error) {
	i, err := r.inspector(ctx)
	if err != nil {
		return nil, err
	}
	all := i.Rulings()
	of, err := all.OfAll(ctx, list)
	for _, err := range all.Unread {
		s.unread = append(s.unread, "Whether changes are rejected, frozen or snoozed is unknown where you may not read the parent: "+err.Error())
	}
	return of, err
}

// change with an id as it is stored now, or as the composition function holds it; nil for none. Resolved Drifts are returned, too.
func (r *reader) change(ctx context.Context, ns, id string) (*v1alpha1.Drift, error) {
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

// ruling of a change as it is now. What the user may not read is left out.
func (r *reader) ruling(ctx context.Context, i *inspect.Inspector, d *v1alpha1.Drift) (channel.Ruling, error) {
	s, err := i.Rulings().Of(ctx, d)
	if kerrors.IsForbidden(err) {
		return s, nil
	}
	return s, err
}

// object that a reference names; the error is NotFound where there is none, or another one has its name.
func (r *reader) object(ctx context.Context, ref v1alpha1.ObjectReference) (*unstructured.Unstructured, error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	m, err := r.options.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, &stateError{Status: 404, Title: "There is no such kind", Text: fmt.Sprintf("The cluster serves no %s: %s", gvk.GroupKind(), err)}
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
