package operations

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/installation"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// TestMissingRights: a component whose roles the API server does not know logs the
// verb and the resource that it lacks, and not that the API server is unreachable;
// it continues when the roles exist.
func TestMissingRights(t *testing.T) {
	for _, component := range []string{"gate", "webhook"} {
		t.Run(component, func(t *testing.T) {
			account := "roleless-" + component
			file, err := the.ServiceAccountKubeconfig(t.Context(), site.Home, account, installation.Nothing)
			require.NoError(t, err)
			args, err := installation.Args(t.Context(), the.Admin, component)
			require.NoError(t, err)
			addresses := [2]string{}
			for i := range addresses {
				port, err := controlplane.FreePort()
				require.NoError(t, err)
				addresses[i] = fmt.Sprintf("127.0.0.1:%d", port)
			}
			args = append(args, "--kubeconfig="+file, "--health-probe-bind-address="+addresses[0], "--metrics-bind-address=0")
			if component == "webhook" {
				args = append(args, "--bind-address="+addresses[1])
			}
			p, err := the.Run(context.WithoutCancel(t.Context()), account, exec.Command(the.Kausality, args...))
			require.NoError(t, err)
			defer p.Stop()
			wait.For(t, "it to log what is missing", wait.Patience, func(context.Context) error {
				raw, err := os.ReadFile(p.Log())
				if err != nil {
					return err
				}
				for line := range strings.Lines(string(raw)) {
					if strings.Contains(line, "permission denied by the API server; retrying") && strings.Contains(line, ` cannot list resource `) {
						return nil
					}
				}
				return fmt.Errorf("it logs %s", raw)
			})
			raw, err := os.ReadFile(p.Log())
			require.NoError(t, err)
			if strings.Contains(string(raw), "cannot reach") {
				t.Errorf("it logs that the API server is unreachable: %s", raw)
			}
			require.NoError(t, p.Err())
			_, err = the.ServiceAccountKubeconfig(t.Context(), site.Home, account) // all verbs
			require.NoError(t, err)
			wait.For(t, "it to be ready", wait.Patience, func(context.Context) error { return site.Probe(addresses[0], "readyz") })
			require.NoError(t, p.Err())
		})
	}
}
