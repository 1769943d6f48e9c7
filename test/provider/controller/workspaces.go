package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/event"
	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/ratelimiter"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	"github.com/kausality-io/function-kausality/test/provider/apis/opentofu"
	"github.com/kausality-io/function-kausality/test/provider/apis/terraform"
	"github.com/kausality-io/function-kausality/test/provider/workspace"
)

// TerraformOptions are the options of the controllers for Workspaces.
type TerraformOptions struct {
	Log logging.Logger

	// Program is the path of terraform, tofu, or what runs in their place.
	Program string

	// Dir has the working directories.
	Dir string

	// PollInterval, CreationGracePeriod and MaxRequeueDelay as in Options.
	PollInterval, CreationGracePeriod, MaxRequeueDelay time.Duration

	// Timeout of a reconcile.
	Timeout time.Duration
}

// SetupWorkspaces adds a controller for each kind of Workspace to the manager.
func SetupWorkspaces(mgr ctrl.Manager, o TerraformOptions) error {
	if err := setupWorkspace[*opentofu.Workspace](mgr, opentofu.WorkspaceGroupVersionKind, &opentofu.Workspace{}, o); err != nil {
		return err
	}
	return setupWorkspace[*terraform.Workspace](mgr, terraform.WorkspaceGroupVersionKind, &terraform.Workspace{}, o)
}

func setupWorkspace[MG workspace.Managed](mgr ctrl.Manager, gvk schema.GroupVersionKind, of client.Object, o TerraformOptions) error {
	name := managed.ControllerName(gvk.GroupKind().String())
	r := managed.NewReconciler(mgr, resource.ManagedKind(gvk),
		managed.WithTypedExternalConnector(&workspace.Connector[MG]{Kube: mgr.GetAPIReader(), Program: o.Program, Dir: o.Dir}),
		managed.WithManagementPolicies(), // feature.EnableBetaManagementPolicies
		managed.WithPollInterval(o.PollInterval),
		managed.WithCreationGracePeriod(o.CreationGracePeriod),
		managed.WithTimeout(o.Timeout),
		managed.WithLogger(o.Log.WithValues("controller", name)),
		managed.WithRecorder(event.NewAPIRecorder(mgr.GetEventRecorderFor(name)))) //nolint:staticcheck // crossplane-runtime takes no other recorder yet.
	delay := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](min(time.Second, o.MaxRequeueDelay), o.MaxRequeueDelay)
	err := ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxWorkspaces, RateLimiter: delay}).
		WithEventFilter(resource.DesiredStateChanged()).
		For(of).
		Complete(ratelimiter.NewReconciler(name, r, ratelimiter.NewGlobal(maxWorkspaces)))
	return errors.Wrapf(err, "cannot set up controller %s", name)
}

// maxWorkspaces of a kind that are reconciled at a time, and per second: each runs a program.
const maxWorkspaces = 10
