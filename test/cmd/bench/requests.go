package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// arms are what is compared: a kind each, with the webhook it meets. "http2" is the
// patching peer as the API server reaches one by a URL, all others as behind a Service. "alike" is
// the patching peer behind the very registration that ours has, so what is left
// between the two is what ours does; "reads" is that, and looks at both objects
// before it patches, as every webhook that decides must; "bare" is ours behind a
// registration without conditions.
var arms = []string{"none", "noop", "http2", "patch", "alike", "reads", "bare", "kausality"}

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
  - {apiGroups: ["%[1]s.bench.example.org"], apiVersions: ["*"], resources: ["things", "parts"], operations: [CREATE, UPDATE, DELETE]}
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
	before, err := b.kausality.decisions(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d rounds, a PATCH of a 3.5 KB custom resource each, one at a time, in turn:\n\n", o.rounds)
	took, err := b.rounds(ctx, o.rounds)
	if err != nil {
		return err
	}
	after, err := b.kausality.decisions(ctx)
	if err != nil {
		return err
	}
	report(os.Stdout, took)
	reportHandler(os.Stdout, before, after)
	if err := b.reportSizes(ctx, os.Stdout); err != nil {
		return err
	}
	return b.cpu(ctx)
}

// reportSizes of what is stored: each byte is read and written many times on the way
// of a request.
func (b *bench) reportSizes(ctx context.Context, w io.Writer) error {
	sizes := make([]string, 0, len(arms))
	for _, a := range arms {
		o, err := b.client.Resource(resource(a)).Namespace("default").Get(ctx, "thing", metav1.GetOptions{})
		if err != nil {
			return err
		}
		raw, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		sizes = append(sizes, fmt.Sprintf("%s %d", a, len(raw)))
	}
	_, err := fmt.Fprintf(w, "bytes as stored: %s\n", strings.Join(sizes, ", "))
	return err
}

func (b *bench) prepare(ctx context.Context) error {
	kinds := make([]controlplane.Kind, 0, len(arms))
	for _, a := range arms {
		kinds = append(kinds, controlplane.Kind{Group: a + ".bench.example.org", Kind: "Thing"})
	}
	for _, a := range cpuArms {
		kinds = append(kinds, controlplane.Kind{Group: resource(a).Group, Kind: "App"}, controlplane.Kind{Group: resource(a).Group, Kind: "Part"})
	}
	if err := b.Define(ctx, kinds...); err != nil {
		return err
	}
	if err := b.startPeers(ctx); err != nil {
		return err
	}
	var err error
	if b.kausality, err = b.startKausality(ctx, []string{"*.kausality.bench.example.org"}); err != nil {
		return err
	}
	b.processes["kausality"] = b.kausality.Process
	if err := b.configurePeer(ctx, "bare", b.kausality.address); err != nil {
		return err
	}
	for arm, peer := range map[string]string{"alike": "patch", "reads": "reads"} {
		if err := b.configureAlike(ctx, arm, peer); err != nil {
			return err
		}
	}
	return b.createObjects(ctx)
}

func (b *bench) startPeers(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.peers, b.processes = map[string]string{}, map[string]*controlplane.Process{}
	for _, kind := range []string{"noop", "http2", "patch", "reads"} {
		port, err := controlplane.FreePort()
		if err != nil {
			return err
		}
		b.peers[kind] = fmt.Sprintf("127.0.0.1:%d", port)
		cmd := exec.Command(self, "--serve="+kind, "--address="+b.peers[kind], "--certs="+b.certs)
		if b.processes[kind], err = b.Run(ctx, kind, cmd); err != nil {
			return err
		}
	}
	for _, kind := range []string{"noop", "http2", "patch"} {
		if err := b.configurePeer(ctx, kind, b.peers[kind]); err != nil {
			return err
		}
	}
	return nil
}

// configureAlike registers a peer as ours is registered: the same rules,
// conditions, selectors and reinvocation, for another group.
func (b *bench) configureAlike(ctx context.Context, arm, peer string) error {
	configurations := b.client.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"))
	got, err := configurations.Get(ctx, "kausality", metav1.GetOptions{})
	if err != nil {
		return err
	}
	ours := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, ours); err != nil {
		return err
	}
	alike := &admissionregistrationv1.MutatingWebhookConfiguration{TypeMeta: ours.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: arm}}
	for _, w := range ours.Webhooks {
		w.Name = arm + "." + w.Name
		w.ClientConfig.URL = new("https://" + b.peers[peer] + "/mutate")
		for i := range w.Rules {
			w.Rules[i].APIGroups = []string{resource(arm).Group}
		}
		alike.Webhooks = append(alike.Webhooks, w)
	}
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(alike)
	if err != nil {
		return err
	}
	_, err = configurations.Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
	return err
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
			a := arms[(i+j)%len(arms)] // in turn, so that no arm is always first
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
