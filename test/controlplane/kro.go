package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// The ServiceAccount of kro, as in its Helm chart.
const (
	kroNamespace      = "kro-system"
	kroServiceAccount = "kro"
)

// KroUser is the user that kro makes all of its requests as.
const KroUser = "system:serviceaccount:" + kroNamespace + ":" + kroServiceAccount

// bootKro installs kro's CRDs and boots its controller, with all rights, as its chart grants them (rbac.mode: unrestricted). It
// checks an instance that is in progress, or whose children cannot be applied, every 3 s, as in a cluster.
func (c *ControlPlane) bootKro(ctx context.Context) error {
	if err := c.InstallCRDs(ctx, parts.Kro); err != nil {
		return err
	}

	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, kroNamespace, kroServiceAccount)
	if err != nil {
		return err
	}

	var health string

	return c.boot(ctx, program{
		name: parts.Kro,
		command: func() (*exec.Cmd, error) {
			port, err := FreePort()
			if err != nil {
				return nil, err
			}

			health = fmt.Sprintf("http://127.0.0.1:%d/readyz", port)

			cmd := exec.Command(c.paths[parts.Kro],
				"--metrics-bind-address=0",
				fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", port),
				"--leader-elect=false",
				"--graceful-shutdown-timeout=3s",
			)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)

			return cmd, nil
		},
		ready:  func(ctx context.Context) error { return probe(ctx, http.DefaultClient, health) },
		within: time.Minute,
	})
}
