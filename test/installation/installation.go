// Package installation runs Kausality as its chart installs it: each component is a process with the arguments of its Deployment
// and the rights of its ServiceAccount, since no kubelet of the control plane starts Pods.
package installation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// Namespace of the installation.
const Namespace = "kausality-system"

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// Nothing is a rule that grants what every user has, so that a component has no access but that of the manifests.
var Nothing = rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}, Verbs: []string{"create"}}

// Helm runs commands of Helm as the user of a kubeconfig, with Dir as its home.
type Helm struct{ Program, Kubeconfig, Dir string }

// Run helm and return what it prints to standard output. The error has what it prints to standard error.
func (h Helm) Run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, h.Program, args...)
	cmd.Env = append(os.Environ(), "HOME="+h.Dir, "KUBECONFIG="+h.Kubeconfig, "HELM_NAMESPACE="+Namespace)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}

// Args of a component's Deployment as it is now. It is an error if its Pods do not run as the component's own ServiceAccount.
func Args(ctx context.Context, c dynamic.Interface, component string) ([]string, error) {
	o, err := c.Resource(deployments).Namespace(Namespace).Get(ctx, "kausality-"+component, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	containers, _, _ := unstructured.NestedSlice(pod, "containers")
	if len(containers) != 1 {
		return nil, fmt.Errorf("the Pods of %s have %d containers, expected one", component, len(containers))
	}
	container, _ := containers[0].(map[string]any)
	args, _, err := unstructured.NestedStringSlice(container, "args")
	if account := pod["serviceAccountName"]; account != "kausality-"+component {
		return nil, fmt.Errorf("the Pods of %s run as %v", component, account)
	}
	return args, err
}

// Kubeconfig of a component's ServiceAccount, which has the rights that the chart grants and no others.
func Kubeconfig(ctx context.Context, plane *controlplane.ControlPlane, component string) (path string, err error) {
	return plane.ServiceAccountKubeconfig(ctx, Namespace, "kausality-"+component, Nothing)
}

// Component to start.
type Component struct {
	// Program is the path of kausality, Kubeconfig that of the component's user.
	Program, Kubeconfig string
	// Name is webhook, controller or gate, and Replica its number from 0.
	Name    string
	Replica int
	// Address that a webhook listens on; a free one where empty.
	Address string
}

// Process is a component that runs.
type Process struct {
	*controlplane.Process
	// Address that a webhook listens on, and those of probes and metrics: HOST:PORT.
	Address, Probe, Metrics string
}

// Start a component with the arguments of its Deployment, and addresses of its own. Await returns once it is ready.
func Start(ctx context.Context, plane *controlplane.ControlPlane, c dynamic.Interface, o Component) (*Process, error) {
	args, err := Args(ctx, c, o.Name)
	if err != nil {
		return nil, err
	}
	p := &Process{Address: o.Address}
	for _, a := range []*string{&p.Address, &p.Probe, &p.Metrics} {
		if *a != "" {
			continue
		}
		if *a, err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	args = append(args, "--kubeconfig="+o.Kubeconfig, "--health-probe-bind-address="+p.Probe, "--metrics-bind-address="+p.Metrics)
	if o.Name == "webhook" {
		args = append(args, "--bind-address="+p.Address)
	}
	p.Process, err = plane.Run(context.WithoutCancel(ctx), fmt.Sprintf("%s-%d", o.Name, o.Replica), exec.Command(o.Program, args...))
	return p, err
}

// FreeAddress is one of the loopback interface that this process leases.
func FreeAddress() (string, error) {
	port, err := controlplane.FreePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// Ready returns an error unless the process is ready.
func (p *Process) Ready(ctx context.Context) error {
	return controlplane.Answers(ctx, "http://"+p.Probe+"/readyz")
}

// Await waits until the process is ready, a minute at most, and no longer than it runs.
func (p *Process) Await(ctx context.Context) error {
	return controlplane.Eventually(ctx, p.Name()+" to be ready", time.Minute, func(ctx context.Context) error {
		if err := p.Err(); err != nil {
			return err
		}
		return p.Ready(ctx)
	})
}
