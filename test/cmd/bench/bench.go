package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// bench is a control plane with what is measured.
type bench struct {
	*controlplane.ControlPlane
	client dynamic.Interface
	bins   parts.Paths
	certs  string

	// Of the requests: ours, the addresses of its peers by what they do, and the processes of all.
	kausality *kausality
	peers     map[string]string
	processes map[string]*controlplane.Process
}

// start a control plane; stop it in the end.
func start(ctx context.Context) (*bench, error) {
	if _, err := parts.Ensure(ctx, os.Stdout, "", parts.Etcd, parts.KubeAPIServer, parts.KubeControllerManager); err != nil {
		return nil, err
	}
	b := &bench{}
	var err error
	if b.bins, err = parts.Ensure(ctx, os.Stdout, "", parts.Kausality); err != nil {
		return nil, err
	}
	if b.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stdout}); err != nil {
		return nil, err
	}
	config := b.Config()
	config.QPS = -1
	b.certs = filepath.Join(b.Dir(), "certs")
	if b.client, err = dynamic.NewForConfig(config); err == nil {
		err = b.CA().ServingCert(b.certs)
	}
	if err != nil {
		b.Stop()
		return nil, err
	}
	return b, nil
}

// kausality is one replica of the webhook.
type kausality struct {
	*controlplane.Process
	address, probe, metrics string
}

// configure the API server to call the webhook at an address for resources.
func (b *bench) configure(ctx context.Context, address string, resources []string) error {
	out, err := exec.CommandContext(ctx, b.bins["kausality"], "manifests", "--webhook-url=https://"+address,
		"--ca-file="+filepath.Join(b.certs, "ca.crt"), "--resources="+strings.Join(resources, ","), "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot print manifests: %w", err)
	}
	return b.Apply(ctx, out)
}

// startKausality, one replica, configured for resources.
func (b *bench) startKausality(ctx context.Context, resources []string) (*kausality, error) {
	k, err := b.addresses()
	if err != nil {
		return nil, err
	}
	if err := b.configure(ctx, k.address, resources); err != nil {
		return nil, err
	}
	return k, b.run(ctx, "kausality", k)
}

// addresses for a replica.
func (b *bench) addresses() (*kausality, error) {
	var free [3]string
	for i := range free {
		port, err := controlplane.FreePort()
		if err != nil {
			return nil, err
		}
		free[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return &kausality{address: free[0], probe: "http://" + free[1] + "/readyz", metrics: "http://" + free[2] + "/metrics"}, nil
}

// run a replica; it needs the manifests applied, for its ServiceAccount.
func (b *bench) run(ctx context.Context, name string, k *kausality, args ...string) error {
	kubeconfig, err := b.ServiceAccountKubeconfig(ctx, "kausality-system", "kausality-webhook")
	if err != nil {
		return err
	}
	args = append([]string{"webhook", "--kubeconfig=" + kubeconfig, "--cert-dir=" + b.certs, "--default-mode=enforce", "--bind-address=" + k.address,
		"--health-probe-bind-address=" + host(k.probe), "--metrics-bind-address=" + host(k.metrics)}, args...)
	k.Process, err = b.Run(ctx, name, exec.Command(b.bins["kausality"], args...))
	return err
}

// host of a URL of ours.
func host(url string) string {
	h, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return h
}
