package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	function "github.com/crossplane/function-sdk-go"
	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/fn"
)

type functionFlags struct {
	debug       bool
	network     string
	address     string
	certsDir    string
	insecure    bool
	maxRecvSize int
}

func functionCommand() *cobra.Command {
	f := functionFlags{}
	cmd := &cobra.Command{
		Use:   "kausality",
		Short: "Every change in a Crossplane platform carries its cause; those that have none are stopped.",
		Long: "With no arguments this is the composition function: a gRPC server that Crossplane calls for each XR.\n" +
			"The subcommands are the admission webhook, the gate and the tools around them.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.debug, "debug", "d", false, "Emit debug logs in addition to info logs.")
	fl.StringVar(&f.network, "network", "tcp", "Network on which to listen for gRPC connections.")
	fl.StringVar(&f.address, "address", ":9443", "Address at which to listen for gRPC connections.")
	fl.StringVar(&f.certsDir, "tls-certs-dir", os.Getenv("TLS_SERVER_CERTS_DIR"),
		"Directory with tls.key, tls.crt and ca.crt (default $TLS_SERVER_CERTS_DIR).")
	fl.BoolVar(&f.insecure, "insecure", false, "Run without mTLS credentials. If set, --tls-certs-dir is ignored.")
	fl.IntVar(&f.maxRecvSize, "max-recv-message-size", 4, "Maximum size of received messages in MB.")
	return cmd
}

func (f functionFlags) run(ctx context.Context) error {
	if !f.insecure {
		if f.certsDir == "" {
			return usageError{fmt.Errorf("--tls-certs-dir: no certificates; give a directory with tls.key, tls.crt and ca.crt, or --insecure for a test")}
		}
		for _, n := range []string{"tls.crt", "tls.key", "ca.crt"} {
			if _, err := os.Stat(filepath.Join(f.certsDir, n)); err != nil {
				return fmt.Errorf("--tls-certs-dir: %s holds no %s", f.certsDir, n)
			}
		}
	}
	log, err := function.NewLogger(f.debug)
	if err != nil {
		return fmt.Errorf("cannot make a logger: %w", err)
	}
	served := make(chan error, 1)
	go func() {
		served <- function.Serve(fn.New(log), function.Listen(f.network, f.address), function.MTLSCertificates(f.certsDir),
			function.Insecure(f.insecure), function.MaxRecvMessageSize(f.maxRecvSize*1024*1024))
	}()
	select {
	case <-ctx.Done():
		return nil // Crossplane calls again what is cut off; nothing is decided half
	case err := <-served:
		if err != nil {
			return fmt.Errorf("cannot serve the function on %s: %w", f.address, err)
		}
		return nil
	}
}
