package policycontroller

import (
	"context"
	"fmt"
	"time"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/certs"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// Options of the policy controller.
type Options struct {
	cluster.Process
	// Manifests has the address of the webhook, the default mode and the identities
	// of the components. CABundle and Resources are not read.
	Manifests manifests.Options
	// ForeignCertificates: another controller fills manifests.SecretServing, such as cert-manager.
	ForeignCertificates bool
	Rotation            certs.Rotation
	// Owner is the ClusterRole that owns what is made here, so that it goes when
	// the installation does; "" for none.
	Owner string
	// TraceAuthors creates the policy manifests.AuthorsPolicy if it does not exist.
	TraceAuthors bool
}

// Run the controller until the context ends.
func Run(ctx context.Context, o Options) error {
	mgr, err := o.manager()
	if err != nil {
		return err
	}
	http1, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return fmt.Errorf("cannot make an HTTP client: %w", err)
	}
	direct, err := client.New(o.Config, client.Options{Scheme: mgr.GetScheme(), HTTPClient: http1})
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	meta, err := metadata.NewForConfigAndClient(o.Config, http1)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(o.Config, http1)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	c := &Controller{Options: o, Cached: mgr.GetClient(), Direct: direct, Metadata: meta, Discovery: disco, Now: time.Now, applied: map[string]applied{}}
	if err := c.setup(mgr); err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	o.Log.Info("kausality controller starts", "defaultMode", o.Manifests.DefaultMode)
	return mgr.Start(ctx)
}

// addToScheme what the controller reads and writes.
var addToScheme = []func(*runtime.Scheme) error{v1alpha1.AddToScheme, krov1alpha1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme,
	admissionregistrationv1.AddToScheme, coordinationv1.AddToScheme}

// manager returns a manager. Its cache has the policies and, of the kinds that are written
// here, the objects with the label of Kausality.
func (o Options) manager() (manager.Manager, error) {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{labelName: nameKausality})}
	byObject := map[client.Object]cache.ByObject{partial(namespaceKind): {Transform: modeOnly}, &v1alpha1.AllowancePolicy{}: ours}
	for _, gvk := range made {
		byObject[partial(gvk)] = ours
	}
	return o.Manager(v1alpha1.ManagerController, cache.Options{ByObject: byObject}, addToScheme...)
}

const (
	labelName     = "app.kubernetes.io/name"
	labelManaged  = "app.kubernetes.io/managed-by"
	nameKausality = "kausality"
)

// ownLabels of what is written here.
func ownLabels() map[string]string {
	return map[string]string{labelName: nameKausality, labelManaged: v1alpha1.ManagerController}
}

// made are the kinds that are written here.
var made = []schema.GroupVersionKind{
	admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
	admissionregistrationv1.SchemeGroupVersion.WithKind(bindingKind),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
}

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func partial(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	return o
}

// everything requests the same reconcile for each object, since all that is written depends on all policies.
var everything = handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })

// setup one queue with one key: everything here depends on all policies.
func (c *Controller) setup(mgr manager.Manager) error {
	changed := make(chan event.GenericEvent)
	c.pulse = newPulse(c.Direct, c.LeaderNamespace, changed)
	if err := mgr.Add(c.pulse); err != nil {
		return err
	}
	b := builder.ControllerManagedBy(mgr).Named("kausality").
		Watches(&v1alpha1.Kausality{}, everything).
		Watches(&v1alpha1.UpgradeAllowance{}, everything, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ApprovalRule{}, everything, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(partial(namespaceKind), everything, builder.OnlyMetadata, builder.WithPredicates(enforcedChanges())).
		Watches(partial(crdKind), everything, builder.OnlyMetadata).
		WatchesRawSource(source.Channel(changed, everything))
	for _, gvk := range made {
		b = b.Watches(partial(gvk), everything, builder.OnlyMetadata)
	}
	if err := b.Complete(reconcile.Func(c.Reconcile)); err != nil {
		return err
	}
	return setupDeriver(c, mgr, func(ctx context.Context) {
		select {
		case changed <- event.GenericEvent{Object: &v1alpha1.Kausality{}}:
		case <-ctx.Done():
		}
	})
}

// setupDeriver with a queue of its own: a graph is a key. changed lets the policies be reported on.
func setupDeriver(c *Controller, mgr manager.Manager, changed func(context.Context)) error {
	c.deriver = &deriver{cached: mgr.GetClient(), direct: c.Direct, events: mgr.GetEventRecorder(v1alpha1.ManagerController), log: c.Log.WithName("graphs"),
		now: c.Now, changed: changed,
		written: map[string]*v1alpha1.AllowancePolicySpec{}, at: map[string]time.Time{}, failed: map[string]string{}}
	ofPolicy := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if p, ok := o.(*v1alpha1.AllowancePolicy); ok && derivedFrom(p) != "" {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: derivedFrom(p)}}}
		}
		return nil
	})
	built, err := builder.ControllerManagedBy(mgr).Named("graphs").
		Watches(&v1alpha1.Kausality{}, everything, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.AllowancePolicy{}, ofPolicy).
		Watches(partial(crdKind), everything, builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return o.GetName() == graphResource.String()
		}))).
		Build(c.deriver)
	if err != nil {
		return err
	}
	c.deriver.watch = func() error {
		return built.Watch(source.Kind[client.Object](mgr.GetCache(), &krov1alpha1.ResourceGraphDefinition{}, &handler.EnqueueRequestForObject{}))
	}
	return nil
}
