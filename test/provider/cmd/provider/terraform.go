package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"

	"github.com/kausality-io/function-kausality/test/provider/controller"
)

// terraformCommand runs the provider for Workspaces.
func terraformCommand(stderr io.Writer) command {
	s := settings{maxReconcileRate: 100, metricsAddress: "0", healthAddress: "0"}
	var o controller.TerraformOptions
	return command{
		flags: func(fs *flag.FlagSet) {
			fs.StringVar(&s.kubeconfig, "kubeconfig", "", "file with the connection to the API server; required")
			fs.StringVar(&o.Program, "program", "", "terraform, tofu, or a program in their place; required")
			fs.StringVar(&o.Dir, "dir", "", "directory of the working directories; required")
			fs.DurationVar(&o.PollInterval, "poll-interval", 10*time.Minute, "how often a Workspace is observed that nothing happens to")
			fs.DurationVar(&o.CreationGracePeriod, "creation-grace-period", 30*time.Second, "how long a Workspace just created may seem not to exist")
			fs.DurationVar(&o.MaxRequeueDelay, "max-requeue-delay", time.Minute, "longest pause between attempts that fail or wait")
			fs.DurationVar(&o.Timeout, "timeout", 20*time.Minute, "how long a reconcile may take")
			fs.BoolVar(&s.debug, "debug", false, "log what the reconciler does")
		},
		check: func() error {
			if err := checkKubeconfig(s.kubeconfig); err != nil {
				return err
			}
			if o.Program == "" || o.Dir == "" {
				return errors.New("--program and --dir are required")
			}
			return nil
		},
		run: func(ctx context.Context) error {
			log := logger(stderr, s.debug)
			cfg, err := connect(ctx, s.kubeconfig, log)
			if err != nil {
				return err
			}
			mgr, err := newManager(cfg, s, log)
			if err != nil {
				return err
			}
			o.Log = logging.NewLogrLogger(log.WithName("provider"))
			if err := controller.SetupWorkspaces(mgr, o); err != nil {
				return err
			}
			if err := mgr.Start(ctx); err != nil {
				return fmt.Errorf("cannot run controllers: %w", err)
			}
			return nil
		},
	}
}
