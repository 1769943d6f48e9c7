package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// twice approved, as by a user who types the command again: nothing is left that lets the next occurrence pass (KR-12-34). What was
// approved in advance can be withdrawn while nothing waits (KR-12-35).
func twice(t *testing.T) {
	gateClosed(t)
	id := ""
	require.NoError(t, the.ChangeOutside(t.Context(), client.Fields{"size": 9}))
	wait.For(t, "the drift to be listed", 60*time.Second, func(context.Context) error {
		if id = strings.TrimPrefix(strings.TrimSpace(the.pipe(t, "pending", xr, "-o", "name").out), "drift.kausality.io/"); id == "" {
			return errors.New("nothing is listed")
		}
		return nil
	})
	the.pipe(t, "approve", id).has(t, 0, "annotated: kausality.io/approve-"+id)
	wait.For(t, "the drift to be resolved", wait.Patience, func(context.Context) error {
		r := the.pipe(t, "approve", id)
		switch {
		case r.code == 1 && strings.Contains(r.out, "is resolved: it was approved"):
			return nil
		case r.code != 0 || !strings.Contains(r.out, "unchanged: "):
			t.Fatalf("approved another time: %+v", r)
		}
		return errors.New(r.out)
	})
	the.pipe(t, "approve", xr, "--yes").has(t, 1, "the last change, "+id+", was approved, by hans@example.com")
	wait.For(t, "nothing to be approved", wait.Patience, func(context.Context) error {
		claims, left := approval.ParseClaims(stored(t, "orders", v1alpha1.AnnotationKeyClaims)), stored(t, "orders", v1alpha1.AnnotationKeyApprovePrefix+id)
		if left != "" || slices.ContainsFunc(claims, func(c v1alpha1.Claim) bool { return c.Digest == id && !c.Spent() }) {
			return fmt.Errorf("the claims are %+v, the annotation %q", claims, left)
		}
		return nil
	})

	the.pipe(t, "approve", database(t), "--digest", id).has(t, 0, "annotated: kausality.io/approvals")
	the.pipe(t, "withdraw", xr, "--yes").has(t, 0, "annotation removed: kausality.io/approvals")
	the.pipe(t, "withdraw", xr, "--yes").has(t, 1, "hans@example.com has no approval about XDatabase default/orders that is not used")
}
