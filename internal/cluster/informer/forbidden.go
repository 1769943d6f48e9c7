package informer

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// A permission that is missing when a process starts may be granted soon: an API
// server that has just started forbids everything until it has read its roles.
const (
	forbiddenRetries  = 30
	forbiddenInterval = time.Second
)

// howToGrant is the part of messages about missing permissions that leads on.
const howToGrant = "check the ClusterRoles and bindings of the installation: kubectl auth can-i --list --as=USER"

// forbidden is the message of a denied request that is retried.
const forbidden = "permission denied by the API server; retrying. If this persists, " + howToGrant

// RetryForbidden calls f, and again while it returns a Forbidden error, for at most
// half a minute. The first one is logged; the last one is wrapped. Other errors are
// returned as they are.
func RetryForbidden(ctx context.Context, log logr.Logger, f func(context.Context) error) error {
	return retryForbidden(ctx, log, f, forbiddenRetries, forbiddenInterval)
}

// retryForbidden calls f again while it is forbidden, more times at an interval: RBAC
// rules reach the API servers' authorizers a moment after they are written.
func retryForbidden(ctx context.Context, log logr.Logger, f func(context.Context) error, more int, interval time.Duration) error {
	for try := 0; ; try++ {
		err := f(ctx)
		if !kerrors.IsForbidden(err) {
			return err
		}
		if try == more {
			return fmt.Errorf("permission denied by the API server, %d times: %w; "+howToGrant, try+1, err)
		}
		if try == 0 {
			log.Info(forbidden, "error", err.Error(), "interval", interval.String(), "retries", more)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
	}
}

// WatchFailed is the cache.WatchErrorHandlerWithContext of all our watches, which
// are retried: it logs a missing permission with how to grant it.
func WatchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if kerrors.IsForbidden(err) {
		klog.FromContext(ctx).Error(err, forbidden)
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}
