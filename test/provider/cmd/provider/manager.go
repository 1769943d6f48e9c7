package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/ratelimiter"

	"github.com/kausality-io/function-kausality/test/provider/apis/aws"
	"github.com/kausality-io/function-kausality/test/provider/apis/opentofu"
	"github.com/kausality-io/function-kausality/test/provider/apis/terraform"
	"github.com/kausality-io/function-kausality/test/provider/apis/v1alpha1"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
	"github.com/kausality-io/function-kausality/test/provider/controller"
	"github.com/kausality-io/function-kausality/test/provider/external"
)

// startTimeout is how long the provider waits for the API server at its start.
// Afterwards it waits for ever, as its informers do.
const startTimeout = 30 * time.Second

// run the provider until the context ends.
func run(ctx context.Context, s settings, stderr io.Writer) error {
	log := logger(stderr, s.debug)
	cfg, err := connect(ctx, s.kubeconfig, log)
	if err != nil {
		return err
	}
	mgr, err := newManager(cfg, s, log)
	if err != nil {
		return err
	}
	err = controller.Setup(ctx, mgr, controller.Options{
		Cloud:               client.New(s.cloudURL, client.WithUserAgent("provider/"+version)),
		External:            external.Options{Async: s.async, AsyncCondition: s.asyncConditions == asyncAll, Timeout: s.asyncTimeout},
		Log:                 logging.NewLogrLogger(log.WithName("provider")),
		PollInterval:        s.pollInterval,
		MaxReconcileRate:    s.maxReconcileRate,
		CreationGracePeriod: s.creationGracePeriod,
		MaxRequeueDelay:     s.maxRequeueDelay,
		TagsFirst:           s.tagsFirst,
	})
	if err != nil {
		return err
	}
	log.Info("Provider started", "version", version, "cloud", s.cloudURL, "apiServer", cfg.Host, "async", s.async)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("cannot run controllers: %w", err)
	}
	return nil
}

// connect to the API server of a kubeconfig, once it answers.
func connect(ctx context.Context, kubeconfig string, log logr.Logger) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot use kubeconfig %s: %w", kubeconfig, err)
	}
	return cfg, await(ctx, cfg, log)
}

// logger for controller-runtime, client-go and the provider. Without debug the
// stack traces that controller-runtime adds to every failed reconcile are left
// out.
func logger(stderr io.Writer, debug bool) logr.Logger {
	level := zapcore.InfoLevel
	if debug {
		level = zapcore.DebugLevel
	}
	log := zap.New(zap.WriteTo(stderr), zap.ConsoleEncoder(), zap.Level(level), zap.StacktraceLevel(zapcore.PanicLevel))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	return log
}

func newManager(cfg *rest.Config, s settings, log logr.Logger) (manager.Manager, error) {
	sch := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme, aws.AddToScheme,
		opentofu.AddToScheme, terraform.AddToScheme} {
		if err := add(sch); err != nil {
			return nil, fmt.Errorf("cannot register types: %w", err)
		}
	}
	timeout := 5 * time.Second
	of, err := parseFalsifications(s.falsify)
	if err != nil {
		return nil, err
	}
	falsifier := &falsifier{how: of, first: map[types.UID]any{}, ready: map[types.UID]bool{}}
	mgr, err := ctrl.NewManager(ratelimiter.LimitRESTConfig(cfg, s.maxReconcileRate), ctrl.Options{
		Scheme:                  sch,
		NewClient:               falsifier.newClient,
		Logger:                  log,
		Metrics:                 metricsserver.Options{BindAddress: s.metricsAddress},
		HealthProbeBindAddress:  s.healthAddress,
		GracefulShutdownTimeout: &timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot create controller manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("cannot add health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("cache", synced(mgr)); err != nil {
		return nil, fmt.Errorf("cannot add readiness check: %w", err)
	}
	return mgr, nil
}

// synced is true once the provider knows all managed resources.
func synced(mgr manager.Manager) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the cache is not filled yet")
		}
		return nil
	}
}

// await the API server.
func await(ctx context.Context, cfg *rest.Config, log logr.Logger) error {
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("cannot create client: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, time.Second, startTimeout, true, func(context.Context) (bool, error) {
		_, err := c.ServerVersion()
		if kerrors.IsUnauthorized(err) {
			return false, err
		}
		if err != nil && last == nil {
			log.Info("Waiting for the API server", "url", cfg.Host, "timeout", startTimeout.String())
		}
		last = err
		return err == nil, nil
	})
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if last != nil {
		err = last
	}
	return fmt.Errorf("cannot reach the API server at %s: %w", cfg.Host, err)
}
