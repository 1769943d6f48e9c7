package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// arms are what is compared: a kind each, with the webhook it meets.
var arms = []string{"none", "noop", "patch", "bare", "kausality"}

func resource(arm string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: arm + ".bench.example.org", Version: "v1", Resource: "things"}
}

const peerConfiguration = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: %[1]s.bench.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 5
  clientConfig: {url: "https://%[2]s/mutate", caBundle: %[3]q}
  rules:
  - {apiGroups: ["%[1]s.bench.example.org"], apiVersions: ["*"], resources: ["things"], operations: [CREATE, UPDATE, DELETE]}
---
`

// requests measures what the webhook adds to a request.
func requests(ctx context.Context, o options) error {
	b, err := start(ctx)
	if err != nil {
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
	fmt.Printf("\n%d rounds, a PATCH of a 3.5 KB custom resource each, one at a time, in turn:\n\n", o.rounds)
	took, err := b.rounds(ctx, o.rounds)
	if err != nil {
		return err
	}
	report(os.Stdout, took)
	return nil
}

func (b *bench) prepare(ctx context.Context) error {
	var yaml strings.Builder
	for _, a := range arms {
		fmt.Fprintf(&yaml, crd, a+".bench.example.org")
	}
	if err := b.Apply(ctx, []byte(yaml.String())); err != nil {
		return err
	}
	if err := b.startPeers(ctx); err != nil {
		return err
	}
	k, err := b.startKausality(ctx, []string{"*.kausality.bench.example.org"})
	if err != nil {
		return err
	}
	// The same webhook without the match condition, to see what each costs.
	if err := b.configurePeer(ctx, "bare", k.address); err != nil {
		return err
	}
	return b.createObjects(ctx)
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
		address := fmt.Sprintf("127.0.0.1:%d", port)
		cmd := exec.Command(self, "--serve="+kind, "--address="+address, "--certs="+b.certs)
		if _, err := b.Run(ctx, kind, cmd); err != nil {
			return err
		}
		if err := b.configurePeer(ctx, kind, address); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) configurePeer(ctx context.Context, arm, address string) error {
	return b.Apply(ctx, fmt.Appendf(nil, peerConfiguration, arm, address, base64(b.CA().Bundle())))
}

// createObjects of 3.5 KB, once their webhooks answer.
func (b *bench) createObjects(ctx context.Context) error {
	for _, a := range arms {
		if err := controlplane.Eventually(ctx, "the webhook of "+a, 30*time.Second, func(ctx context.Context) error {
			_, err := b.client.Resource(resource(a)).Namespace("default").Create(ctx, thing(resource(a).Group, "thing"), metav1.CreateOptions{})
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
