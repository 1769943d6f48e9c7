package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// bootControllerManager boots kube-controller-manager, whose controllers each are a user of their
// own: system:serviceaccount:kube-system:deployment-controller and so on.
//
// Its garbage collector discovers new kinds every 30 s, which no flag changes
// (cmd/kube-controller-manager/app/core.go, v1.35.4): owners of a kind that is younger are not
// known to it. Restarting the process makes it discover them at once.
func (c *ControlPlane) bootControllerManager(ctx context.Context) error {
	kubeconfig, err := c.writeKubeconfig(parts.KubeControllerManager, tokenAuth(c.tokens[userControllerManager]))
	if err != nil {
		return err
	}

	return c.boot(ctx, program{
		name: parts.KubeControllerManager,
		command: func() (*exec.Cmd, error) {
			return exec.Command(c.paths[parts.KubeControllerManager],
				"--kubeconfig="+kubeconfig,
				"--secure-port=0", // No client calls it, and so it needs no port.
				"--leader-elect=false",
				"--use-service-account-credentials=true",
				"--service-account-private-key-file="+c.pki(fileSAKey),
				"--root-ca-file="+c.pki(fileClusterCA),
				"--kube-api-qps=500", "--kube-api-burst=1000",
			), nil
		},
		ready:  c.controllersReady,
		within: time.Minute,
	})
}

// controllersReady returns an error until controllers have done what every namespace needs.
func (c *ControlPlane) controllersReady(ctx context.Context) error {
	cs, err := kubernetes.NewForConfig(c.quiet())
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}

	if _, err := cs.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}

	_, err = cs.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})

	return err
}
