package graphs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

const home = "kausality-system"

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	// itself is what a process needs to learn who it is.
	itself = rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}, Verbs: []string{"create"}}
)

// installChart as `helm template … | kubectl apply` does, and run what its Deployments have.
func (e *Env) installChart(ctx context.Context) error {
	tools, err := parts.Ensure(ctx, os.Stderr, "", parts.Helm)
	if err != nil {
		return err
	}
	root, err := parts.Root()
	if err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.CommandContext(ctx, tools[parts.Helm], "template", "kausality", filepath.Join(root, "package", "helm", "kausality"),
		"--namespace", home, "--set", "ungate.enabled=false,webhook.shutdownDelay=0s,webhook.settleGrace=1s,webhook.url=https://"+address)
	cmd.Env, cmd.Stderr = append(os.Environ(), "HOME="+e.Dir()), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot render the chart: %w", err)
	}
	for _, manifests := range [][]byte{[]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + home + "}\n"), out} {
		if err := e.Apply(ctx, manifests); err != nil {
			return err
		}
	}
	for _, component := range []string{"controller", "webhook", "gate"} {
		args, err := e.argsOf(ctx, component)
		if err != nil {
			return err
		}
		if component == "webhook" {
			args = append(args, "--bind-address="+address)
		}
		p, err := e.run(ctx, component, args)
		if err != nil {
			return err
		}
		switch component {
		case "webhook":
			e.Webhook = p
		case "gate":
			e.Gate = p
		case "controller":
			e.Controller = p
		}
	}
	return nil
}

// argsOf the Deployment of a component.
func (e *Env) argsOf(ctx context.Context, component string) ([]string, error) {
	c, err := e.As("admin@example.com")
	if err != nil {
		return nil, err
	}
	o, err := c.Resource(deployments).Namespace(home).Get(ctx, "kausality-"+component, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		return nil, fmt.Errorf("the Deployment of the %s has no containers: %w", component, err)
	}
	container, _ := containers[0].(map[string]any)
	args, _, err := unstructured.NestedStringSlice(container, "args")
	return args, err
}

// run a component as its ServiceAccount, and wait until it is ready.
func (e *Env) run(ctx context.Context, component string, args []string) (*controlplane.Process, error) {
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, home, "kausality-"+component, itself)
	if err != nil {
		return nil, err
	}
	health, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	probe := fmt.Sprintf("127.0.0.1:%d", health)
	args = append(args, "--kubeconfig="+kubeconfig, "--health-probe-bind-address="+probe, "--metrics-bind-address=0")
	p, err := e.Run(ctx, "kausality-"+component, exec.Command(e.Bins[parts.Kausality], args...))
	if err != nil {
		return nil, err
	}
	return p, until(ctx, "the "+component+" to be ready", func(ctx context.Context) error {
		return controlplane.Answers(ctx, "http://"+probe+"/readyz")
	})
}
