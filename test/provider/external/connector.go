package external

import (
	"context"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// Defaults of Options.
const (
	// DefaultTimeout of asynchronous operations, as in upjet.
	DefaultTimeout = time.Hour

	// DefaultCheckInterval is the interval of requests to the cloud for whether
	// an operation has ended.
	DefaultCheckInterval = 200 * time.Millisecond
)

// Options of a Connector.
type Options struct {
	// Async makes every Create, Update and Delete asynchronous. Otherwise only
	// those are that the cloud accepts without finishing them (202).
	Async bool

	// AsyncCondition reports the condition AsyncOperation as well.
	AsyncCondition bool

	// Timeout of asynchronous operations in real time; zero means
	// DefaultTimeout.
	Timeout time.Duration

	// CheckInterval is the interval of requests to the cloud for whether an
	// operation has ended; zero means DefaultCheckInterval.
	CheckInterval time.Duration
}

// A Connector connects managed resources to the cloud. It looks at no
// ProviderConfig: there is one cloud, and it wants no credentials.
type Connector[MG resource.Managed, R Resource, F any] struct {
	kind     Kind[MG, R, F]
	cloud    *client.Client
	tracker  *Tracker
	callback Callback
	options  Options
	base     context.Context //nolint:containedctx // The life of the provider, which operations outlive no more than reconciles do.
	log      logging.Logger
}

// NewConnector returns a Connector. Its operations end when the context does.
func NewConnector[MG resource.Managed, R Resource, F any](ctx context.Context, k Kind[MG, R, F], c *client.Client, t *Tracker,
	cb Callback, o Options, log logging.Logger) *Connector[MG, R, F] {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.CheckInterval == 0 {
		o.CheckInterval = DefaultCheckInterval
	}
	return &Connector[MG, R, F]{kind: k, cloud: c, tracker: t, callback: cb, options: o, base: ctx, log: log}
}

// Connect returns a client for one reconcile of the managed resource.
func (c *Connector[MG, R, F]) Connect(_ context.Context, mg MG) (managed.TypedExternalClient[MG], error) {
	return &external[MG, R, F]{
		Connector:  c,
		collection: c.kind.Collection(c.cloud),
		op:         c.tracker.Operation(mg),
	}, nil
}
