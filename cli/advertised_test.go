package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/cli/choice/choicetest"
)

// TestAdvertisedValues: each value that the help of a flag lists, or has as an example, is accepted.
func TestAdvertisedValues(t *testing.T) {
	composition := filepath.Join(t.TempDir(), "composition.yaml")
	if err := os.WriteFile(composition, []byte("apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {name: x}\n"+
		"spec: {mode: Pipeline, compositeTypeRef: {apiVersion: example.org/v1, kind: X}, pipeline: [{step: a, functionRef: {name: a}}]}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	renders, err := exec.LookPath("true") // the cluster is read before anything is rendered
	if err != nil {
		t.Fatal(err)
	}
	choicetest.Program{
		Root: func(t *testing.T) *cobra.Command {
			t.Helper()
			cmd, err := NewCommand(genericiooptions.NewTestIOStreamsDiscard(), "v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			return cmd
		},
		Refused: func(err error) bool { return errors.As(err, &usageError{}) },
		Common:  []string{"--kubeconfig=/nowhere"},
		Args: map[string]string{
			"approve": "x/y", "approve --selector": "x", "approve --external": "x/y --any",
			"explain": "x/y",
			"freeze":  "x/y", "freeze --selector": "x", "freeze --limit": "x --all",
			"preview": composition + " --crossplane=" + renders,
			"reject":  "x/y --reason=a", "reject --selector": "x --reason=a",
			"snooze": "x/y --off", "snooze --selector": "x --off", "snooze --for": "x/y", "snooze --until": "x/y",
			"withdraw": "x/y", "withdraw --selector": "x",
			"trace": "x/y", "ungate": "--all", "unfreeze": "x/y", "unfreeze --selector": "x",
			"rollout start": "x --cause=a", "rollout status": "x", "rollout approve": "x", "rollout resume": "x", "rollout stop": "x",
		},
		FreeText: []string{
			"approver", "at", "break-glass", "cause", "crossplane", "digest", "events", "external", "functions", "graph", "history-service",
			"in-cluster", "initiator", "message", "patch", "reason", "url", "url-ca-file", "waves",
		},
		Instead: map[string][]string{"until": {"2126-01-05T09:30:00Z"}}, // what help has is over
	}.Test(t, 85)
}
