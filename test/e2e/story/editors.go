package story

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// EditorsRole runs Crossplane's RBAC manager until it has written a ClusterRole, such as that of the editors of XDatabases.
func (e *Env) EditorsRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	kubeconfig, err := e.Kubeconfig("rbac-manager", "")
	if err != nil {
		return nil, err
	}
	manager := exec.Command(e.Bins[parts.Crossplane], "rbac", "start", "--provider-clusterrole=crossplane:allowed-provider-permissions")
	manager.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	running, err := e.Serve(ctx, "rbac-manager", manager)
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	api, err := kubernetes.NewForConfig(e.Config())
	if err != nil {
		return nil, err
	}
	var role *rbacv1.ClusterRole
	err = controlplane.Eventually(ctx, "the RBAC manager to write "+name, time.Minute, func(ctx context.Context) (err error) {
		role, err = api.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cannot read the role: %w", err)
		}
		return nil
	})
	return role, err
}
