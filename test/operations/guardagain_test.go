package operations

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// elsewhere makes a policy guard another group than the shop's.
var elsewhere = map[string]any{"spec": map[string]any{"resources": []any{map[string]any{"apiGroups": []any{"elsewhere.example.org"}, "resources": []any{"*"}}}}}

// shop makes it guard the shop's group again.
var shop = map[string]any{"spec": map[string]any{"resources": []any{map[string]any{"apiGroups": []any{shopGroup}, "resources": []any{"*"}}}}}

// TestUnguardAndGuardAgain: a kind is removed from the policies and added again, at
// once or when the components' access to it is gone, while children are created
// whose parents must be read; no request is refused meanwhile.
func TestUnguardAndGuardAgain(t *testing.T) {
	ns := the.Namespace(t, "guarded-again")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	owner, err := the.App(t, ns, "owner")
	require.NoError(t, err)
	yes := true
	refs := []metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var calls, traced atomic.Int64
	failed := make(chan error, 1)
	go func() {
		c := the.As(t, site.Hans).Resource(site.Apps).Namespace(ns)
		for ; ; calls.Add(1) {
			o := site.Object("shop.example.org/v1", "App", ns, fmt.Sprintf("child-%d", calls.Load()), map[string]any{"size": int64(1)})
			o.SetOwnerReferences(refs)
			made, err := c.Create(ctx, o, metav1.CreateOptions{})
			switch {
			case ctx.Err() != nil:
				close(failed)
				return
			case err != nil:
				failed <- fmt.Errorf("call %d: %w", calls.Load(), err)
				return
			case made.GetAnnotations()["kausality.io/trace"] != "":
				traced.Add(1)
			}
		}
	}()
	for turn := range 6 {
		require.NoError(t, site.Merge(t, the.Admin, site.Kausality, "", "shop", elsewhere))
		the.AwaitPolicy(t, "shop")
		if turn%2 == 1 {
			without(t, shopGroup)
		}
		require.NoError(t, site.Merge(t, the.Admin, site.Kausality, "", "shop", shop))
		the.AwaitPolicy(t, "shop")
		seen := traced.Load()
		wait.For(t, "children to be traced again", wait.Patience, func(context.Context) error {
			if traced.Load() < seen+20 {
				return errors.New("they are not")
			}
			return nil
		})
	}
	stop()
	if err := <-failed; err != nil {
		t.Error(err)
	}
	t.Logf("%d children, %d of them traced", calls.Load(), traced.Load())
	if traced.Load() < 100 || traced.Load() == calls.Load() {
		t.Error("too little happened to show anything")
	}
}
