package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	function "github.com/crossplane/function-sdk-go"
	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/fn"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// functionFlags of the composition function, named as in function-sdk-go's
// template, so that a DeploymentRuntimeConfig sets them as for any function.
type functionFlags struct {
	debug       bool
	network     string
	address     string
	certsDir    string
	insecure    bool
	maxRecvSize int
	metrics     string

	claimsKeyFile string
}

// flagMetrics names the address of the metrics, as with the other processes.
const flagMetrics = "metrics-bind-address"

// functionCommand has the flags of function-sdk-go, which Crossplane's runtimes set.
func functionCommand() *cobra.Command {
	f := functionFlags{}
	cmd := &cobra.Command{
		Use:   "kausality",
		Short: "Every change in a Crossplane platform carries its cause; those that have none are stopped.",
		Long: "With no arguments this is the composition function: a gRPC server that Crossplane calls for each XR.\n" +
			"The subcommands are the admission webhook, the gate and the tools around them.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.Flags().Changed(flagMetrics))
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.debug, "debug", "d", false, "Emit debug logs in addition to info logs.")
	fl.StringVar(&f.network, "network", "tcp", "Network on which to listen for gRPC connections.")
	fl.StringVar(&f.address, "address", ":9443", "Address at which to listen for gRPC connections.")
	fl.StringVar(&f.certsDir, "tls-certs-dir", os.Getenv("TLS_SERVER_CERTS_DIR"),
		"Directory with tls.key, tls.crt and ca.crt (default $TLS_SERVER_CERTS_DIR).")
	fl.BoolVar(&f.insecure, "insecure", false, "Run without mTLS credentials. If set, --tls-certs-dir is ignored.")
	fl.StringVar(&f.metrics, flagMetrics, function.DefaultMetricsAddress, "HOST:PORT of the Prometheus metrics; 0 turns them off.")
	fl.StringVar(&f.claimsKeyFile, "claims-key-file", os.Getenv("CLAIMS_KEY_FILE"),
		"File with the key by which the function recognizes the votes and used approvals that the webhook "+
			"recorded (default $CLAIMS_KEY_FILE). Without it they count for resources alone that a webhook guards.")
	fl.IntVar(&f.maxRecvSize, "max-recv-message-size", 4, "Maximum size of received messages in MB.")
	return cmd
}

// claims are the keys of the function by the flags; nil for none.
func (f functionFlags) claims() (*approval.Keys, error) {
	if f.claimsKeyFile == "" {
		return nil, nil //nolint:nilnil // nil has no keys.
	}
	key, err := os.ReadFile(f.claimsKeyFile)
	if err != nil {
		return nil, usageError{fmt.Errorf("--claims-key-file: %w; mount the Secret %s there", err, manifests.SecretClaimsKey)}
	}
	if len(key) < cluster.MinClaimsKey {
		return nil, usageError{fmt.Errorf("--claims-key-file: %s has %d bytes, less than the %d of a key", f.claimsKeyFile, len(key), cluster.MinClaimsKey)}
	}
	keys := &approval.Keys{}
	keys.Use(key)
	return keys, nil
}

// checkCerts reports a missing file before anything starts.
func (f functionFlags) checkCerts() error {
	if f.insecure {
		return nil
	}
	if f.certsDir == "" {
		return usageError{fmt.Errorf("--tls-certs-dir: no certificates; give a directory with tls.key, tls.crt and ca.crt, or --insecure for a test")}
	}
	for _, n := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if _, err := os.Stat(filepath.Join(f.certsDir, n)); err != nil {
			return fmt.Errorf("--tls-certs-dir: %s holds no %s", f.certsDir, n)
		}
	}
	return nil
}

// metricsAddress to serve metrics at, "" for none. Where the default address is in
// use, as it often is outside of a pod, the function runs without metrics.
func (f functionFlags) metricsAddress(log logging.Logger, given bool) (string, error) {
	if f.metrics == "0" || f.metrics == "" {
		return "", nil
	}
	l, err := net.Listen("tcp", f.metrics) //nolint:noctx // Closed at once: the SDK does not report an address in use.
	switch {
	case err != nil && given:
		return "", fmt.Errorf("--%s: cannot listen on %s: %w; give another address, or 0 to turn it off", flagMetrics, f.metrics, err)
	case err != nil:
		log.Info("Metrics are not served; give another address with --"+flagMetrics, "error", err)
		return "", nil
	}
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("--%s: %w", flagMetrics, err)
	}
	return f.metrics, nil
}

// run serves the function until the context ends.
func (f functionFlags) run(ctx context.Context, metricsGiven bool) error {
	if err := f.checkCerts(); err != nil {
		return err
	}
	log, err := function.NewLogger(f.debug)
	if err != nil {
		return fmt.Errorf("cannot create a logger: %w", err)
	}
	serves := fn.New(log)
	if serves.Claims, err = f.claims(); err != nil {
		return err
	}
	metrics, err := f.metricsAddress(log, metricsGiven)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() {
		served <- function.Serve(serves, function.Listen(f.network, f.address), function.MTLSCertificates(f.certsDir),
			function.Insecure(f.insecure), function.MaxRecvMessageSize(f.maxRecvSize*1024*1024), function.WithMetricsServer(metrics))
	}()
	select {
	case <-ctx.Done():
		return nil // Crossplane repeats a call that was cut off, and the function has no state
	case err := <-served:
		if err != nil {
			return fmt.Errorf("cannot serve the function on %s: %w", f.address, err)
		}
		return nil
	}
}
