package story

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/installation"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

func (e *Env) startCloud(ctx context.Context) error {
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	e.cloudURL = fmt.Sprintf("http://127.0.0.1:%d", port)
	if _, err := e.Serve(ctx, "cloud", exec.Command(e.Bins[parts.TestProvider], "cloud", fmt.Sprintf("--address=127.0.0.1:%d", port))); err != nil {
		return err
	}
	e.Cloud = client.New(e.cloudURL)
	return controlplane.Eventually(ctx, "the cloud to answer", 30*time.Second, e.Cloud.Healthy)
}

func (e *Env) startProviders(ctx context.Context) error {
	root, err := parts.Root()
	if err != nil {
		return err
	}
	for _, name := range []string{"cloud.example.org_databases.yaml", "rds.aws.crossplane.io_rdsinstances.yaml"} {
		crd, err := os.ReadFile(filepath.Join(root, "test", "provider", "crds", name))
		if err != nil {
			return err
		}
		if err := e.Apply(ctx, crd); err != nil {
			return err
		}
	}
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, "crossplane-system", "provider-cloud")
	if err != nil {
		return err
	}
	cmd := exec.Command(e.Bins[parts.TestProvider], "run", "--kubeconfig="+kubeconfig, "--cloud-url="+e.cloudURL, "--poll-interval=1s",
		"--creation-grace-period=0s", "--max-requeue-delay=2s", "--max-reconcile-rate=100")
	cmd.Args = append(cmd.Args, e.Options.ProviderArgs...)
	cmd.Args[0] = "provider" // its field manager, as in a cluster
	if _, err := e.Serve(ctx, "provider-cloud", cmd); err != nil {
		return err
	}
	if e.Options.WithoutObjects {
		return nil
	}
	return e.startProviderKubernetes(ctx)
}

// startProviderKubernetes runs a provider that is not of this repository. Its
// external resources are ConfigMaps of the same cluster.
func (e *Env) startProviderKubernetes(ctx context.Context) error {
	part := cmp.Or(e.Options.ProviderKubernetes, parts.ProviderKubernetes)
	if err := e.InstallCRDs(ctx, part); err != nil {
		return err
	}
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, "crossplane-system", "provider-kubernetes")
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	certs := filepath.Join(e.Dir(), "provider-kubernetes-certs")
	if err := e.CA().ServingCert(certs); err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	cmd := exec.Command(e.Bins[part], "--poll=2s", "--max-reconcile-rate=50")
	cmd.Args[0] = "provider"
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "TLS_SERVER_CERTS_DIR="+certs, fmt.Sprintf("%s=%d", parts.EnvWebhookPort, port))
	if _, err := e.Serve(ctx, "provider-kubernetes", cmd); err != nil {
		return err
	}
	return e.Apply(ctx, fmt.Appendf(nil, providerConfig, indent(string(raw))))
}

const providerConfig = `
apiVersion: v1
kind: Secret
metadata: {namespace: crossplane-system, name: provider-kubernetes}
stringData:
  kubeconfig: |
%s
---
apiVersion: kubernetes.m.crossplane.io/v1alpha1
kind: ClusterProviderConfig
metadata: {name: default}
spec:
  credentials:
    source: Secret
    secretRef: {namespace: crossplane-system, name: provider-kubernetes, key: kubeconfig}
`

func (e *Env) startFunctions(ctx context.Context) error {
	certs := filepath.Join(e.Dir(), "function-certs")
	if err := e.CA().ServingCert(certs); err != nil {
		return err
	}
	for name, bin := range map[string]string{
		parts.PatchAndTransform: parts.PatchAndTransform, parts.AutoReady: parts.AutoReady, "function-kausality": parts.Kausality,
	} {
		port, err := controlplane.FreePort()
		if err != nil {
			return err
		}
		args := []string{"--tls-certs-dir=" + certs, fmt.Sprintf("--address=127.0.0.1:%d", port)}
		capabilities := []string{"composition"}
		if bin == parts.Kausality {
			args = append(args, "--metrics-bind-address=0")
			capabilities = append(capabilities, "operation") // as in crossplane.yaml
		}
		cmd := exec.Command(e.Bins[bin], args...)
		if e.Functions[name], err = e.Serve(ctx, name, cmd); err != nil {
			return err
		}
		if err := e.RegisterFunction(ctx, name, fmt.Sprintf("localhost:%d", port), capabilities...); err != nil {
			return err
		}
	}
	return nil
}

// resources that the story guards.
var resources = []string{"*.example.org", "*.cloud.example.org", "objects.kubernetes.m.crossplane.io", "*.example.com", "*.rds.aws.crossplane.io",
	"*.opentofu.m.upbound.io", "*.tf.upbound.io"}

// startKausality installs the manifests as a user does and runs the webhook and the
// gate under their own ServiceAccounts. Without webhook only what the
// function needs is installed.
func (e *Env) startKausality(ctx context.Context) error {
	if e.Options.Install != nil {
		return e.Options.Install(ctx, e)
	}
	if !e.Options.Webhook {
		return e.applyOutput(ctx, "manifests", "--function-only")
	}
	certs := filepath.Join(e.Dir(), "webhook-certs")
	if err := e.CA().ServingCert(certs); err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	probe, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	// Roles first, since the components need them to become ready; the webhook
	// configuration is among them, and waits for nothing yet: there are no XRs.
	e.webhookURL = fmt.Sprintf("https://127.0.0.1:%d", port)
	if err := e.applyOutput(ctx, "manifests", "--webhook-url="+e.webhookURL,
		"--ca-file="+filepath.Join(certs, "ca.crt"),
		"--resources="+strings.Join(append(slices.Clone(resources), e.Options.Resources...), ","),
		"--default-mode=enforce"); err != nil {
		return err
	}
	var reports []string
	if e.Options.Receiver {
		if reports, err = e.receiverArgs(); err != nil {
			return err
		}
	}
	args := slices.Concat([]string{fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--cert-dir=" + certs,
		"--settle-grace=" + e.Options.SettleGrace.String(), "--shutdown-delay=0s"}, e.Options.WebhookArgs, reports)
	if err := e.component(ctx, "webhook", probe, args...); err != nil {
		return err
	}
	probe, err = controlplane.FreePort()
	if err != nil {
		return err
	}
	gate := reports
	if !e.Options.CreationGrace { // the story plays weeks in seconds
		gate = append(gate, "--creation-grace=0s")
	}
	if err := e.component(ctx, "gate", probe, gate...); err != nil || !e.Options.Slack {
		return err
	}
	return e.startSlack(ctx)
}

func (e *Env) component(ctx context.Context, name string, probe int, args ...string) error {
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, home, "kausality-"+name, installation.Nothing)
	if err != nil {
		return err
	}
	args = append([]string{name, "--kubeconfig=" + kubeconfig, "--default-mode=enforce", fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", probe)}, args...)
	p, err := e.Serve(ctx, "kausality-"+name, exec.Command(e.Bins[parts.Kausality], args...))
	if err != nil {
		return err
	}
	e.components = append(e.components, p)
	return controlplane.Eventually(ctx, "the "+name+" to be ready", 30*time.Second, func(ctx context.Context) error {
		return controlplane.Answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", probe))
	})
}

// applyOutput of our binary, as in `kausality … | kubectl apply -f -`.
func (e *Env) applyOutput(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, e.Bins[parts.Kausality], args...).Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality %v: %w", args, err)
	}
	return e.Apply(ctx, out)
}

// LegacyProviderConfig is what cluster-scoped Objects of provider-kubernetes use.
const LegacyProviderConfig = `
apiVersion: kubernetes.crossplane.io/v1alpha1
kind: ProviderConfig
metadata: {name: default}
spec:
  credentials:
    source: Secret
    secretRef: {namespace: crossplane-system, name: provider-kubernetes, key: kubeconfig}
`
