package view

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

const (
	// spacesFor is how long it is known which Namespaces the user may list.
	spacesFor = time.Minute
	// maxReads of Namespaces at a time.
	maxReads = 8
)

// lister of what waits: Drifts as they are watched, else as they are stored, and what the composition function holds.
type lister struct {
	options Options
	client  dynamic.Interface
	watches *watches
	// spaces that the user may list; nil for the whole cluster. Known since spacesAt; zero for unknown.
	spaces   []string
	spacesAt time.Time

	mu sync.Mutex
	// held is what the composition function holds, by Namespace.
	held map[string]heldIn
}

// heldIn a Namespace, or in all, until it is read again.
type heldIn struct {
	inspect.Waiting
	to time.Time
}

// forget forgets what the composition function holds.
func (r *lister) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.held)
}

// list lists what waits in the whole cluster or, where the user may not list that, in the Namespaces that they may (KR-17-14).
func (r *lister) list(ctx context.Context, now time.Time) (inspect.Waiting, error) {
	if r.spaces == nil || now.Sub(r.spacesAt) > spacesFor {
		w, err := r.listIn(ctx, metav1.NamespaceAll)
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
			if lists[n], errs[n] = r.listIn(ctx, ns); !kerrors.IsForbidden(errs[n]) {
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

// listIn lists what waits in a Namespace, or in all: open Drifts as they are watched, else as they are stored, and what the composition function holds.
func (r *lister) listIn(ctx context.Context, ns string) (out inspect.Waiting, err error) {
	open, watched := r.watches.open(ns)
	if !watched {
		if open, err = inspect.Drifts(ctx, r.client, ns, openSlim); err != nil {
			return out, err
		}
	}
	held, err := r.heldBy(ctx, ns)
	return held.Merged(open), err
}

// heldBy returns what the composition function holds in a Namespace, or in all.
func (r *lister) heldBy(ctx context.Context, ns string) (inspect.Waiting, error) {
	began := r.options.Now()
	r.mu.Lock()
	have, ok := r.held[ns]
	r.mu.Unlock()
	if ok && began.Before(have.to) {
		return have.Waiting, nil
	}
	w, err := inspect.Held(ctx, r.client, r.options.Mapper, ns)
	if err != nil {
		return w, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[ns] = heldIn{Waiting: w, to: r.options.until(began)}
	return w, nil
}

// readable lists together, of the Namespaces that the user may list, which are kept.
func (r *lister) readable(lists []inspect.Waiting, errs []error) (out inspect.Waiting, err error) {
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

// namespaces returns the namespaces of the cluster, or that of the kubeconfig where the user may not list them.
func (r *lister) namespaces(ctx context.Context) (out []string, err error) {
	for o, err := range informer.Items(ctx, r.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}), informer.PageSize) {
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

// until returns the time until which it is known what was read since a time.
func (o *Options) until(began time.Time) time.Time {
	now := o.Now()
	return now.Add(max(freshFor, share*now.Sub(began)))
}
