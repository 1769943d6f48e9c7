package main

import (
	"context"
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
	"github.com/kausality-io/function-kausality/docs"
	"github.com/kausality-io/function-kausality/internal/drift"
)

// maxReport bounds a report, in bytes.
const maxReport = 2 << 20

// notifyCommand groups what has to do with receivers of DriftReports.
func notifyCommand() *cobra.Command {
	return group("notify", "Receive DriftReports, or test who does.", notifyLogCommand(), notifySchemaCommand(), notifySlackCommand(), notifyTestCommand())
}

// notifySchemaCommand prints the schema that receivers may check reports with.
func notifySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON schema of DriftReports.", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(docs.DriftReportSchema)
			return err
		},
	}
}

// notifyTestCommand sends a report that is marked to each receiver.
func notifyTestCommand() *cobra.Command {
	var endpoints drift.Endpoints
	var reports drift.ReportOptions
	cmd := &cobra.Command{
		Use: "test", Short: "Send a marked DriftReport to each receiver, and print the answers.", Args: noArgs,
		Long: "Sends one DriftReport to each --drift-webhook-url, as webhook and gate would. Its field test is true, and it is about no drift. The exit code is " +
			"1 if a receiver does not accept it.",
		Example: `  kausality notify test --drift-webhook-url=https://hooks.example.org/kausality,token-file=/etc/kausality/drift-webhooks/token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(endpoints.URLs) == 0 {
				return usageError{errors.New("name the receivers by --drift-webhook-url")}
			}
			senders, err := drift.NewSenders(endpoints)
			if err != nil {
				return usageError{err}
			}
			return testReceivers(cmd.Context(), cmd.OutOrStdout(), senders, drift.MarkedReport(reports.Cluster, time.Now()))
		},
	}
	addEndpoints(cmd.Flags(), &endpoints, &reports)
	return cmd
}

// testReceivers by a report, each after the other, and print their answers.
func testReceivers(ctx context.Context, out io.Writer, senders []*drift.Sender, report v1alpha1.DriftReport) error {
	failed := 0
	for _, s := range senders {
		answer, err := s.Post(ctx, report)
		what := "accepted it: " + answer.Status
		switch {
		case err != nil:
			what = "did not get it: " + err.Error()
		case answer.Code/100 != 2:
			what = "did not accept it: " + answer.Status
		}
		if err != nil || answer.Code/100 != 2 {
			failed++
		}
		if answer.Body != "" {
			what += fmt.Sprintf(", %q", answer.Body)
		}
		if _, err := fmt.Fprintln(out, s.Name+" "+what); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d receivers did not accept the report; see docs/reports.md", failed, len(senders))
	}
	return nil
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
