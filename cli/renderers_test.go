package cli

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/slack"
)

var updateRenderers = flag.Bool("update-renderers", false, "write the golden files of TestRenderers")

// TestRenderers covers KR-17-01: all that render pending changes show the same of them, as one golden file for each shows.
func TestRenderers(t *testing.T) {
	since := metav1.NewTime(day)
	revision := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "xdatabases-7f3", Author: "alice@example.com"}
	held, voted, deletion := changed(1, "shop", revision), changed(2, "shop", revision), changed(3, "shop")
	voted.Status.Votes, voted.Status.Lacks = []v1alpha1.Vote{{User: "anna@example.com"}}, "1 of 2 approvals (anna@example.com); needs 1 more of group dba"
	deletion.Spec.Relation, deletion.Spec.Operation, deletion.Spec.Difference = v1alpha1.RelationExternal, "DELETE", nil
	deletion.Spec.Cause = "deletion by hans@example.com"
	list := []v1alpha1.Drift{held, voted, deletion}
	for i := range list {
		list[i].Spec.SuggestedApproval, list[i].Status.Since, list[i].Status.Phase = "kubectl annotate …", &since, v1alpha1.DriftDetected
	}
	terminal, _ := printed(t, formatTable, list)
	messages, err := slack.Show(&slack.Config{ClusterName: "prod-eu-1"}, list)
	require.NoError(t, err)
	for name, have := range map[string]string{"terminal.txt": terminal.String(), "slack.json": string(messages) + "\n"} {
		file := filepath.Join("testdata", "renderers", name)
		if *updateRenderers {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(have), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), have, "%s at %s", name, day.Format(time.RFC3339))
	}
}
