package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// TestMissingRights: a component whose roles the API server does not know says so,
// with the verb and the resource, and not that nobody answers; it goes on when they
// come.
func TestMissingRights(t *testing.T) {
	for _, component := range []string{"gate", "webhook"} {
		t.Run(component, func(t *testing.T) {
			account := "roleless-" + component
			file, err := the.ServiceAccountKubeconfig(t.Context(), home, account, itself)
			must(t, err)
			args, err := the.args(t.Context(), component)
			must(t, err)
			addresses := [2]string{}
			for i := range addresses {
				port, err := controlplane.FreePort()
				must(t, err)
				addresses[i] = fmt.Sprintf("127.0.0.1:%d", port)
			}
			args = append(args, "--kubeconfig="+file, "--health-probe-bind-address="+addresses[0], "--metrics-bind-address=0")
			if component == "webhook" {
				args = append(args, "--bind-address="+addresses[1])
			}
			p, err := the.Run(context.WithoutCancel(t.Context()), account, exec.Command(the.kausality, args...))
			must(t, err)
			defer p.Stop()
			eventually(t, "it to say what is missing", func(context.Context) error {
				raw, err := os.ReadFile(p.Log())
				if err != nil {
					return err
				}
				for line := range strings.Lines(string(raw)) {
					if strings.Contains(line, "permission denied by the API server; retrying") && strings.Contains(line, ` cannot list resource `) {
						return nil
					}
				}
				return fmt.Errorf("it says %s", raw)
			})
			raw, err := os.ReadFile(p.Log())
			must(t, err)
			if strings.Contains(string(raw), "cannot reach") {
				t.Errorf("it says that nobody answers: %s", raw)
			}
			must(t, p.Err())
			_, err = the.ServiceAccountKubeconfig(t.Context(), home, account) // everything
			must(t, err)
			eventually(t, "it to be ready", func(context.Context) error { return get(addresses[0], "readyz") })
			must(t, p.Err())
		})
	}
}
