package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxReport bounds a report, in bytes.
const maxReport = 2 << 20

// notifyCommand groups the backends that receive DriftReports.
func notifyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "notify", Short: "Run a backend that receives DriftReports.", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return usageError{fmt.Errorf("name a backend; see %s --help", cmd.CommandPath())}
	}}
	log := notifyLogCommand()
	log.SilenceErrors, log.SilenceUsage = true, true
	cmd.AddCommand(log)
	return cmd
}

// notifyLogCommand is the simplest backend, for tests and as an example.
func notifyLogCommand() *cobra.Command {
	var address, certDir string
	cmd := &cobra.Command{
		Use: "log", Short: "Print each DriftReport as one line of JSON.", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cert, err := tls.LoadX509KeyPair(filepath.Join(certDir, "tls.crt"), filepath.Join(certDir, "tls.key"))
			if err != nil {
				return fmt.Errorf("--cert-dir: %w", err)
			}
			srv := &http.Server{
				Addr: address, Handler: printReports(cmd.OutOrStdout()), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
				TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
			}
			go func() { <-cmd.Context().Done(); _ = srv.Close() }()
			if err := srv.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("--bind-address: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "bind-address", ":8443", "HOST:PORT to receive reports on.")
	cmd.Flags().StringVar(&certDir, "cert-dir", "", "Directory with the serving certificate tls.crt and its key tls.key.")
	return cmd
}

// printReports to a writer, one line each. One goroutine writes, so that the lines
// of concurrent requests do not mix (KR-10-07).
func printReports(out io.Writer) http.Handler {
	lines := make(chan []byte)
	go func() {
		for l := range lines {
			_, _ = out.Write(append(l, '\n'))
		}
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		report := v1alpha1.DriftReport{}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReport)).Decode(&report); err != nil || report.Kind != "DriftReport" {
			http.Error(w, "a DriftReport is expected", http.StatusBadRequest)
			return
		}
		raw, err := json.Marshal(report)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		lines <- raw
	})
}
