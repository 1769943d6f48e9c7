package policystore

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// live are the policies as they were read past the watches.
type live struct {
	set *informer.Recent[*allowance.Set]
	// compiled as in Store.
	compiled map[types.UID]*Compiled
}

// Live returns the policies as they were stored at most informer.FreshFor ago, whatever the watches have (KR-13-74). An error means that
// they cannot be read.
func (s *Store) Live(ctx context.Context) (*allowance.Set, error) { return s.live.set.Get(ctx) }

// readLive reads the policies of all kinds past the watches. What is compiled already is not compiled again.
func readLive(ctx context.Context, s *Store) (*allowance.Set, error) {
	lists := make(chan *unstructured.UnstructuredList, len(s.informers))
	group, ctx := errgroup.WithContext(ctx)
	for r := range s.informers {
		group.Go(func() error {
			list, err := s.client.Resource(gvr(r)).List(ctx, metav1.ListOptions{})
			if kerrors.IsNotFound(err) { // no CRD, no policies
				return nil
			}
			if err != nil {
				return fmt.Errorf("cannot read the %s, whose watch is late: %w", r, err)
			}
			lists <- list
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	close(lists)
	var all []*unstructured.Unstructured
	for list := range lists {
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live.compiled = s.compileAll(all)
	return NewSet(maps.Values(s.live.compiled)), nil
}
