package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// The ServiceAccount of Crossplane, as in its Helm chart.
const (
	crossplaneNamespace      = "crossplane-system"
	crossplaneServiceAccount = "crossplane"
)

// crossplaneObjects are those that `crossplane core init` makes
// (internal/initializer, Crossplane v2.3.3).
const crossplaneObjects = `
apiVersion: pkg.crossplane.io/v1beta1
kind: Lock
metadata: {name: lock}
---
apiVersion: pkg.crossplane.io/v1beta1
kind: DeploymentRuntimeConfig
metadata: {name: default}
---
apiVersion: apiextensions.crossplane.io/v1alpha1
kind: ManagedResourceActivationPolicy
metadata: {name: default}
spec: {activate: ["*"]}
`

var activationPolicies = schema.GroupVersionResource{
	Group: "apiextensions.crossplane.io", Version: "v1alpha1", Resource: "managedresourceactivationpolicies",
}

// bootCrossplane installs Crossplane's CRDs and boots its core.
func (c *ControlPlane) bootCrossplane(ctx context.Context) error {
	if err := c.InstallCRDs(ctx, parts.Crossplane); err != nil {
		return err
	}

	if err := c.applier.Apply(ctx, []byte(crossplaneObjects)); err != nil {
		return err
	}

	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, crossplaneNamespace, crossplaneServiceAccount)
	if err != nil {
		return err
	}

	certs := filepath.Join(c.dir.path, dirCrossplane, "tls")
	if err := c.ca.ServingCert(certs, "crossplane"); err != nil {
		return err
	}

	var health string

	return c.boot(ctx, program{
		name: parts.Crossplane,
		command: func() (*exec.Cmd, error) {
			ports, err := freePorts(2)
			if err != nil {
				return nil, err
			}

			health = fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[0])
			c.crossplaneMetrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[1])

			return c.crossplaneCommand(kubeconfig, certs, ports[0], ports[1]), nil
		},
		ready:  func(ctx context.Context) error { return c.crossplaneReady(ctx, health) },
		within: time.Minute,
	})
}

// crossplaneCommand returns the command for the core. It polls and resyncs more often than in a
// cluster; that the health and metrics ports are open on all interfaces cannot be changed (v2.3.3).
func (c *ControlPlane) crossplaneCommand(kubeconfig, certs string, health, metrics int) *exec.Cmd {
	dir := filepath.Join(c.dir.path, dirCrossplane)

	args := append([]string{
		"core", "start",
		"--enable-webhooks=false",
		"--package-runtime=Function=External;Provider=External",
		"--tls-client-certs-dir=" + certs,
		"--xpkg-cache-dir=" + filepath.Join(dir, "xpkg"),
		"--xfn-cache-dir=" + filepath.Join(dir, "xfn"),
		fmt.Sprintf("--health-probe-port=%d", health),
		fmt.Sprintf("--metrics-port=%d", metrics),
		"--poll-interval=5s",
		"--sync-interval=1m",
	}, c.opts.CrossplaneArgs...)

	cmd := exec.Command(c.paths[parts.Crossplane], args...)
	cmd.Args[0] = "crossplane" // its User-Agent, and so its field manager, as in a cluster
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)

	return cmd
}

// crossplaneReady returns an error until a controller of Crossplane has answered an object: the
// probe alone succeeds before any controller has started.
func (c *ControlPlane) crossplaneReady(ctx context.Context, health string) error {
	if err := probe(ctx, http.DefaultClient, health); err != nil {
		return err
	}

	policy, err := c.applier.client.Resource(activationPolicies).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return err
	}

	return ConditionTrue(policy, "Healthy")
}
