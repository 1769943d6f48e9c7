package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/event"
	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/ratelimiter"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
	"github.com/kausality-io/function-kausality/test/provider/external"
)

// Options of the controllers.
type Options struct {
	Cloud    *client.Client
	External external.Options
	Log      logging.Logger

	// PollInterval is how often a resource is observed that nothing happens
	// to.
	PollInterval time.Duration

	// MaxReconcileRate is how many reconciles there may be per second.
	MaxReconcileRate int

	// CreationGracePeriod is how long a resource that was just created may
	// seem not to exist.
	CreationGracePeriod time.Duration

	// MaxRequeueDelay is the longest pause between attempts that fail or wait
	// for something, such as a deletion. The shortest is a second, or this.
	MaxRequeueDelay time.Duration

	// TagsFirst has the tags of the object itself written before its external name is.
	TagsFirst bool
}

// setup adds a controller for one kind.
func setup[MG resource.Managed, R external.Resource, F any](ctx context.Context, mgr ctrl.Manager, gvk schema.GroupVersionKind,
	k external.Kind[MG, R, F], o Options) error {
	name := managed.ControllerName(gvk.GroupKind().String())
	q := newQueuer()
	r := newReconciler(ctx, mgr, gvk, k, o, q.requeue)
	delay := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](min(time.Second, o.MaxRequeueDelay), o.MaxRequeueDelay)
	err := ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.MaxReconcileRate, RateLimiter: delay}).
		WithEventFilter(resource.DesiredStateChanged()).
		Watches(k.New(), &handler.EnqueueRequestForObject{}).
		WatchesRawSource(q).
		Complete(ratelimiter.NewReconciler(name, r, ratelimiter.NewGlobal(o.MaxReconcileRate)))
	return errors.Wrapf(err, "cannot set up controller %s", name)
}

// newReconciler returns crossplane-runtime's reconciler for one kind. It calls
// requeue when an asynchronous operation has ended.
func newReconciler[MG resource.Managed, R external.Resource, F any](ctx context.Context, mgr ctrl.Manager, gvk schema.GroupVersionKind,
	k external.Kind[MG, R, F], o Options, requeue func(types.NamespacedName, error)) *managed.Reconciler {
	name := managed.ControllerName(gvk.GroupKind().String())
	log := o.Log.WithValues("controller", name)
	tracker := external.NewTracker()
	callback := external.StatusCallback(mgr.GetClient(), mgr.GetAPIReader(), k.New, o.External.AsyncCondition, requeue)
	initializers := []managed.Initializer{managed.NewNameAsExternalName(mgr.GetClient())}
	if o.TagsFirst {
		initializers = append([]managed.Initializer{tagger(mgr.GetClient())}, initializers...)
	}
	return managed.NewReconciler(mgr, resource.ManagedKind(gvk),
		managed.WithInitializers(initializers...),
		managed.WithTypedExternalConnector(external.NewConnector(ctx, k, o.Cloud, tracker, callback, o.External, log)),
		managed.WithFinalizer(tracker.Finalizer(resource.NewAPIFinalizer(mgr.GetClient(), managed.FinalizerName))),
		managed.WithManagementPolicies(), // feature.EnableBetaManagementPolicies
		managed.WithDeterministicExternalName(true),
		managed.WithPollInterval(o.PollInterval),
		managed.WithCreationGracePeriod(o.CreationGracePeriod),
		managed.WithLogger(log),
		managed.WithRecorder(event.NewAPIRecorder(mgr.GetEventRecorderFor(name)))) //nolint:staticcheck // crossplane-runtime takes no other recorder yet.
}
