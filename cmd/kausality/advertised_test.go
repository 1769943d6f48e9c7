package main

import (
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/cli/choice/choicetest"
)

// TestAdvertisedValues: each value that the help of a flag lists, or has as an example, is accepted.
func TestAdvertisedValues(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	list, ca := write("list", []byte("[]")), write("ca", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}))
	page := write("page", []byte("url: https://a\nbearerTokens: {}\n"))
	choicetest.Program{
		Root: func(*testing.T) *cobra.Command {
			cmd := root()
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			return cmd
		},
		Refused: func(err error) bool { return errors.As(err, &usageError{}) },
		Args: map[string]string{
			"controller":         "--webhook-service=a/b",
			"page":               "--config-file=" + page,
			"gate --record-sink": "--record-spool-dir=" + dir, "webhook --record-sink": "--record-spool-dir=" + dir,
			"manifests":            "--webhook-url=https://a:1 --ca-file=" + ca + " --resources=configmaps",
			"terraform check-plan": "--plan=" + filepath.Join("..", "..", "gate", "systems", "testdata", "plans", "create.json") + " --allowances=" + list,
		},
		Instead: map[string][]string{
			"day": {}, // it is compared with the time
			"record-sink": {"cloudevents=https://a.example.org", "otlp=https://a.example.org", "nats=tls://a.example.org",
				"otlp=https://a.example.org,token-file=" + list + ",ca-file=" + ca},
			"drift-webhook-url": {"https://hooks.example.org/kausality", "https://hooks.example.org/kausality,token-file=" + list},
			"resources":         {"deployments.apps", "configmaps", "*.example.org"},
		},
		FreeText: []string{
			"controller-namespaces",
			"*address", "*-dir", "*-file", "*-host", "*-namespace", "*-secret", "*-user", "*-users", "*-url", "address", "allowances", "annotations",
			"at", "cluster", "cluster-name", "day", "drift-webhook-link", "drifts", "events", "kubeconfig", "nats-consumer", "nats-stream", "network", "owner",
			"plan", "previous", "record-spool-size", "service-account", "store", "webhook-service", "filename",
		},
	}.Test(t, 50)
}
