package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
)

const (
	// removalGrace is how long webhook and gate may take to observe that Kausality
	// is being removed. It exceeds the longest request that was under way then.
	removalGrace    = 5 * time.Second
	removalInterval = time.Second
)

// Remove restores everything permanently, while webhook and gate run in any mode.
// First it marks the webhook configuration, by which they mask nothing any more
// (KR-12-08). It repeats Ungate until a pass that began after removalGrace finds
// nothing masked. If the context ends earlier, the error includes the last one of
// a pass.
//
// The mark stays: it is deleted with the installation.
func Remove(ctx context.Context, o Options) (Result, error) {
	c, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return Result{}, fmt.Errorf("cannot make a client: %w", err)
	}
	r := removal{Options: o, now: clock.Now}
	for {
		over, err := r.pass(ctx, c)
		if over {
			return r.done, scope.ForgetRemoval(ctx, c)
		}
		select {
		case <-ctx.Done():
			return r.done, fmt.Errorf("cannot restore everything: %w", errors.Join(err, context.Cause(ctx)))
		case <-time.After(removalInterval):
		}
	}
}

// removal in progress.
type removal struct {
	Options
	now func() time.Time
	// since is when this process first saw the mark.
	since time.Time
	done  Result
	// reported is the last error that was printed; each is printed once in a row.
	reported string
}

// pass restores what is masked now. over is true once nothing is left. A mark that
// was removed is set again, and the grace period starts again.
func (r *removal) pass(ctx context.Context, c dynamic.Interface) (over bool, err error) {
	already, err := scope.MarkRemoval(ctx, c, r.now())
	if err != nil {
		return false, err
	}
	if !already || r.since.IsZero() {
		r.since = r.now()
	}
	observed := r.now().Sub(r.since) >= removalGrace
	found, err := Ungate(ctx, r.Options)
	r.done.Masked = max(r.done.Masked, found.Masked)
	r.done.Pending = max(r.done.Pending, found.Pending)
	r.done.Restored += found.Restored
	r.done.Objects = append(r.done.Objects, found.Objects...)
	r.done.Unread = found.Unread
	if err != nil && err.Error() != r.reported {
		r.reported = err.Error()
		r.printf("%s\n", r.reported)
	}
	return err == nil && found.Masked == 0 && observed, err
}
