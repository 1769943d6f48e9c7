package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/gate"
	"github.com/kausality-io/function-kausality/internal/manifests"
	"github.com/kausality-io/function-kausality/webhook"
)

const debugLevel = zapcore.DebugLevel

// webhookCommand runs the admission webhook. All flags are checked before the
// connection is made, so that a mistake is reported at once.
func webhookCommand() *cobra.Command {
	p, a := processFlags{}, admissionFlags{}
	o := webhook.Options{}
	cmd := &cobra.Command{
		Use: "webhook", Short: "Run the admission webhook.", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.Admission = a.options()
			if o.Controllers, err = a.controllers(); err != nil {
				return err
			}
			o.Admission.DefaultMode = p.mode
			if o.Admission.Ignore, err = p.ignored(); err != nil {
				return err
			}
			o.Admission.CloseTo, o.Admission.CarryPendingDrift, o.Admission.Provenance = p.closesTo(), p.pendingDrift == pendingCarry, p.provenance
			o.ComponentUsers, o.Endpoints = slices.Concat(manifests.ComponentUsers(), p.componentUsers), p.endpoints
			o.Reports = p.reports
			return p.run(cmd.Context(), "webhook", func(ctx context.Context) error {
				o.Process, o.Records = p.Process, p.recorder
				return webhook.Run(ctx, o)
			})
		},
	}
	p.add(cmd)
	a.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.CertDir, "cert-dir", "", "Directory with the serving certificate tls.crt and its key tls.key; read again when they change.")
	fl.StringVar(&o.CertSecret, "cert-secret", "", "Secret in "+manifests.Namespace+" with the serving certificate, instead of --cert-dir; it is watched.")
	fl.StringVar(&o.ClientCAFile, "client-ca-file", "",
		"PEM file with the authorities of clients, read again when it changes; clients without a certificate of one are not answered. All are where it is empty.")
	fl.StringVar(&o.BindAddress, "bind-address", ":9443", "HOST:PORT to serve the webhook on.")
	fl.DurationVar(&o.SettleGrace, "settle-grace", 10*time.Second, "How long an XR must stay converged before it counts as settled.")
	fl.DurationVar(&o.ShutdownDelay, "shutdown-delay", 5*time.Second,
		"How long a replica continues to answer after SIGTERM, while its address is removed from the Service.")
	fl.StringArrayVar(&p.componentUsers, "component-user", nil, "User name of another component of Kausality; repeatable.")
	return cmd
}

// gateCommand runs the gate controller.
func gateCommand() *cobra.Command {
	p := processFlags{}
	o, shard := gate.Options{}, ""
	cmd := &cobra.Command{
		Use: "gate", Short: "Run the gate controller.", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.DefaultMode = p.mode
			if o.Ignore, err = p.ignored(); err != nil {
				return err
			}
			if o.Shard, err = gate.ParseShard(shard); err != nil {
				return fmt.Errorf("--shard: %w", err)
			}
			o.CloseTo, o.CarryPendingDrift, o.Provenance = p.closesTo(), p.pendingDrift == pendingCarry, p.provenance
			o.Endpoints, o.Reports = p.endpoints, p.reports
			return p.run(cmd.Context(), "gate", func(ctx context.Context) error {
				o.Process, o.Records = p.Process, p.recorder
				return gate.Run(ctx, o)
			})
		},
	}
	p.add(cmd)
	cmd.Flags().DurationVar(&o.CreationGrace, "creation-grace", gating.DefaultCreationGrace,
		"How long the gate of a creation stays open after the managed resource is Ready.")
	cmd.Flags().DurationVar(&o.Deadline, "gate-deadline", gating.DefaultDeadline, "How long an opening may stay unconfirmed.")
	cmd.Flags().StringVar(&shard, "shard", "", "INDEX/COUNT where several gates share the managed resources, as in 0/3; each shard elects its own leader.")
	return cmd
}
