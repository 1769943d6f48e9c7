package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// arms are what is compared: a kind each, with the webhook it meets.
var arms = []string{"none", "noop", "patch", "kausality"}

func resource(arm string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: arm + ".bench.example.org", Version: "v1", Resource: "things"}
}

const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s.bench.example.org}
spec:
  group: %[1]s.bench.example.org
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
`

const peerConfiguration = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: %[1]s.bench.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 5
  clientConfig: {url: "https://127.0.0.1:%[2]d/mutate", caBundle: %[3]q}
  rules:
  - {apiGroups: ["%[1]s.bench.example.org"], apiVersions: ["*"], resources: ["things"], operations: [CREATE, UPDATE, DELETE]}
---
`

type bench struct {
	*controlplane.ControlPlane
	client dynamic.Interface
	bins   parts.Paths
	certs  string
}

func measure(ctx context.Context, rounds int) error {
	if _, err := parts.Ensure(ctx, os.Stdout, "", parts.Etcd, parts.KubeAPIServer, parts.KubeControllerManager); err != nil {
		return err
	}
	b := &bench{}
	var err error
	if b.bins, err = parts.Build(ctx, os.Stdout, "", parts.Part{Name: "kausality", Dir: ".", Package: "./cmd/kausality"}); err != nil {
		return err
	}
	if b.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stdout}); err != nil {
		return err
	}
	defer b.Stop()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	const warmUp = 100
	if _, err := b.rounds(ctx, warmUp); err != nil {
		return err
	}
	fmt.Printf("\n%d rounds, a PATCH of a 3.5 KB custom resource each, one at a time, in turn:\n\n", rounds)
	took, err := b.rounds(ctx, rounds)
	if err != nil {
		return err
	}
	report(os.Stdout, took)
	return nil
}

func (b *bench) prepare(ctx context.Context) error {
	config := b.Config()
	config.QPS = -1
	var err error
	if b.client, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	b.certs = filepath.Join(b.Dir(), "certs")
	if err := b.CA().ServingCert(b.certs); err != nil {
		return err
	}
	var yaml strings.Builder
	for _, a := range arms {
		fmt.Fprintf(&yaml, crd, a)
	}
	if err := b.Apply(ctx, []byte(yaml.String())); err != nil {
		return err
	}
	for _, start := range []func(context.Context) error{b.startPeers, b.startKausality, b.createObjects} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startPeers(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, kind := range []string{"noop", "patch"} {
		port, err := controlplane.FreePort()
		if err != nil {
			return err
		}
		cmd := exec.Command(self, "--serve="+kind, fmt.Sprintf("--address=127.0.0.1:%d", port), "--certs="+b.certs)
		if _, err := b.Run(ctx, kind, cmd); err != nil {
			return err
		}
		if err := b.Apply(ctx, fmt.Appendf(nil, peerConfiguration, kind, port, base64(b.CA().Bundle()))); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startKausality(ctx context.Context) error {
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, b.bins["kausality"], "manifests", fmt.Sprintf("--webhook-url=https://127.0.0.1:%d", port),
		"--ca-file="+filepath.Join(b.certs, "ca.crt"), "--resources=*.kausality.bench.example.org", "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot print manifests: %w", err)
	}
	if err := b.Apply(ctx, out); err != nil {
		return err
	}
	kubeconfig, err := b.ServiceAccountKubeconfig(ctx, "kausality-system", "kausality-webhook")
	if err != nil {
		return err
	}
	cmd := exec.Command(b.bins["kausality"], "webhook", "--kubeconfig="+kubeconfig, "--cert-dir="+b.certs,
		fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--default-mode=enforce")
	_, err = b.Run(ctx, "kausality", cmd)
	return err
}

// createObjects of 3.5 KB, once their webhooks answer.
func (b *bench) createObjects(ctx context.Context) error {
	data := map[string]any{}
	for i := range 60 {
		data[fmt.Sprintf("field%02d", i)] = strings.Repeat("x", 40)
	}
	for _, a := range arms {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource(a).GroupVersion().String(), "kind": "Thing", "metadata": map[string]any{"name": "thing", "annotations": map[string]any{"bench.example.org/by": "bench"}},
			"spec": map[string]any{"count": int64(0), "data": data},
		}}
		if err := controlplane.Eventually(ctx, "the webhook of "+a, 30*time.Second, func(ctx context.Context) error {
			_, err := b.client.Resource(resource(a)).Namespace("default").Create(ctx, o, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// rounds of one request of each kind.
func (b *bench) rounds(ctx context.Context, n int) (map[string][]time.Duration, error) {
	took := map[string][]time.Duration{}
	for i := range n {
		for j := range arms {
			a := arms[(i+j)%len(arms)] // nobody is always first
			at := time.Now()
			_, err := b.client.Resource(resource(a)).Namespace("default").Patch(ctx, "thing", types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"count":%d}}`, at.UnixNano()), metav1.PatchOptions{})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a, err)
			}
			took[a] = append(took[a], time.Since(at))
		}
	}
	return took, nil
}
