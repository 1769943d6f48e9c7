package states

import (
	"context"
	"fmt"
	"maps"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// A kind that we may not watch is not tried again for refusedFirst, and each time
// twice as long, at most refusedMost: a role may just not have come through.
const (
	refusedFirst = time.Second
	refusedMost  = 5 * time.Minute
)

// refusal of a watch.
type refusal struct {
	until time.Time
	wait  time.Duration
}

// isLooked reports whether a kind that is only read by Look is watched for that.
func (s *States) isLooked(gvk schema.GroupVersionKind) bool {
	if s.Looked == nil {
		return true
	}
	i, err := s.kinds.Get(gvk)
	return err == nil && s.Looked(i)
}

// Keep the watches of kinds that f wants kept, and end the others. What was refused
// may be granted now.
func (s *States) Keep(f func(i kinds.Info, requested bool) bool) {
	for _, w := range s.all() {
		if f(w.info, w.requested.Load()) {
			continue
		}
		s.mu.Lock()
		if s.watched[w.info.GVK] == w {
			s.endLocked(w, endUnneeded)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.refused)
}

// failed handles what a watch fails with. A kind that is watched for questions about
// it alone, and that we may not watch, is unwatched: what is kept of its objects
// gets old, and they are read from then on. What is guarded is tried
// again, as after any other failure.
func (s *States) failed(w *watched) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *cache.Reflector, err error) {
		if !kerrors.IsForbidden(err) || s.Needed == nil || s.Needed(w.info) {
			informer.WatchFailed(ctx, r, err)
			return
		}
		if s.refuse(w) {
			s.OnRefused(fmt.Errorf("cannot watch %s, whose objects are read one by one: %w", w.info.GVK, err))
		}
	}
}

// refuse a watch, and remember that; false where it is over already.
func (s *States) refuse(w *watched) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched[w.info.GVK] != w {
		return false
	}
	s.endLocked(w, endUnneeded)
	now := time.Now()
	maps.DeleteFunc(s.refused, func(_ schema.GroupVersionKind, r refusal) bool { return now.After(r.until.Add(refusedMost)) })
	wait := min(max(refusedFirst, 2*s.refused[w.info.GVK].wait), refusedMost)
	s.refused[w.info.GVK] = refusal{until: now.Add(wait), wait: wait}
	return true
}

// refusedLately reports whether a kind turned out not to be one that we may watch,
// and is not to be tried again yet.
func (s *States) refusedLately(gvk schema.GroupVersionKind) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return time.Now().Before(s.refused[gvk].until)
}
