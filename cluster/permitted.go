package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// A right that is missing at the start may be on its way: an API server that has
// just started refuses everybody until it has read its roles.
const (
	permittedTries = 30
	permittedEvery = time.Second
)

// missing says what a refusal of the API server means, and what to look at.
const missing = "the API server answers and does not grant this; it is asked again. " +
	"If that goes on, see whether the ClusterRoles and bindings of the installation are there and name this user: kubectl auth can-i --list --as=USER"

// Permitted does what the start of a process needs, and again where the API server
// refuses it, for at most half a minute. Other errors than refusals are f's own.
func Permitted(ctx context.Context, log logr.Logger, f func(context.Context) error) error {
	return permitted(ctx, log, f, permittedTries, permittedEvery)
}

func permitted(ctx context.Context, log logr.Logger, f func(context.Context) error, more int, every time.Duration) error {
	for try := 0; ; try++ {
		err := f(ctx)
		if !kerrors.IsForbidden(err) {
			return err
		}
		if try == more {
			return fmt.Errorf("the API server answers and refuses this, asked %d times: %w; see whether the ClusterRoles and bindings of the installation "+
				"are there and name this user: kubectl auth can-i --list --as=USER", try+1, err)
		}
		if try == 0 {
			log.Info(missing, "refused", err.Error(), "every", every.String(), "times", more)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// WatchFailed handles what a watch fails with, which is tried again: it says of a
// refusal what it means, with the verb and the resource as the API server has them.
func WatchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if kerrors.IsForbidden(err) {
		klog.FromContext(ctx).Error(err, missing)
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}
