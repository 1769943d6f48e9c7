package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	gardenv1 "github.com/kausality-io/function-kausality/examples/generic-control-plane/garden/v1"
)

// controller of gardens, one build of it.
type controller struct {
	client.Client
	// fertilizer that this build gives all plants.
	fertilizer string
}

// runController of a build until the context ends.
func runController(ctx context.Context, c *rest.Config, fertilizer string) error {
	s := runtime.NewScheme()
	if err := gardenv1.AddToScheme(s); err != nil {
		return err
	}
	c = rest.CopyConfig(c)
	c.UserAgent = "garden-controller/" + build(fertilizer)
	mgr, err := ctrl.NewManager(c, ctrl.Options{
		Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("cannot start the controller: %w", err)
	}
	r := &controller{Client: mgr.GetClient(), fertilizer: fertilizer}
	if err := ctrl.NewControllerManagedBy(mgr).For(&gardenv1.Garden{}).Owns(&gardenv1.Plant{}).Complete(r); err != nil {
		return fmt.Errorf("cannot start the controller: %w", err)
	}
	return mgr.Start(ctx)
}

// build of the controller that gives a fertilizer.
func build(fertilizer string) string {
	if fertilizer == "" {
		return "v1.0.0"
	}
	return "v1.1.0"
}

// Reconcile a garden: it has as many plants of its variety as its spec has.
func (c *controller) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	garden := &gardenv1.Garden{}
	if err := c.Get(ctx, r.NamespacedName, garden); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Grown", ObservedGeneration: garden.Generation}
	var refused error
	for i := range garden.Spec.Plants {
		plant := &gardenv1.Plant{ObjectMeta: metav1.ObjectMeta{Namespace: garden.Namespace, Name: fmt.Sprintf("%s-%d", garden.Name, i)}}
		if _, err := controllerutil.CreateOrUpdate(ctx, c.Client, plant, func() error {
			plant.Spec = gardenv1.PlantSpec{Variety: garden.Spec.Variety, Fertilizer: c.fertilizer}
			return controllerutil.SetControllerReference(garden, plant, c.Scheme())
		}); err != nil {
			refused = err
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Refused", err.Error()
		}
	}
	garden.Status.ObservedGeneration = garden.Generation
	if meta.SetStatusCondition(&garden.Status.Conditions, ready) {
		if err := c.Status().Update(ctx, garden); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, refused
}
