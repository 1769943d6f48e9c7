package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// writers create the fleet.
const writers = 16

// gateBench is the gate controller on its control plane.
type gateBench struct {
	*bench
	size    options
	process *controlplane.Process
	metrics string // URL
	watched *watched
	aims
}

// The aims, for 10,000 managed resources of 50 kinds on 2 cores.
const (
	gateResident = 100  // MiB
	gateWrites   = 1    // to the managed resource, for an opening and for a closing
	gateP99      = 250. // ms at 25 a second
)

// gate measures the gate controller.
func gate(ctx context.Context, o options) error {
	common, err := start(ctx)
	if err != nil {
		return err
	}
	defer common.Stop()
	if o.objects < 3*o.closings {
		return fmt.Errorf("--closings=%d takes three times as many managed resources, there are %d", o.closings, o.objects)
	}
	b := &gateBench{bench: common, size: o}
	for _, step := range []func(context.Context) error{b.installKinds, b.createFleet, b.watchFleet, b.startGate, b.resident, b.atRate, b.openings, b.saturated} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return b.err()
}

func (b *gateBench) kind(i int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "gate.bench.example.org", Version: "v1", Resource: fmt.Sprintf("kind%ds", i%b.size.kinds)}
}

func (b *gateBench) of(i int) dynamic.ResourceInterface {
	return b.client.Resource(b.kind(i)).Namespace("default")
}

// installKinds and our manifests. The webhook is not called: it is not measured
// here.
func (b *gateBench) installKinds(ctx context.Context) error {
	kinds := make([]controlplane.Kind, b.size.kinds)
	for i := range kinds {
		kinds[i] = controlplane.Kind{Group: "gate.bench.example.org", Kind: fmt.Sprintf("Kind%d", i), Categories: []string{"managed"}, Spec: controlplane.ManagedSpec}
	}
	if err := b.Define(ctx, kinds...); err != nil {
		return err
	}
	certs := filepath.Join(b.Dir(), "certs")
	if err := b.CA().ServingCert(certs); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, b.bins["kausality"], "manifests", "--webhook-url=https://127.0.0.1:1",
		"--ca-file="+filepath.Join(certs, "ca.crt"), "--resources=*.gate.bench.example.org", "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot print manifests: %w", err)
	}
	objects, err := controlplane.Decode(out)
	if err != nil {
		return err
	}
	list := make([]any, 0, len(objects))
	for _, o := range objects {
		if o.GetKind() == "MutatingWebhookConfiguration" {
			hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			for _, h := range hooks {
				h.(map[string]any)["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"bench": "nobody"}}
			}
			if err := unstructured.SetNestedSlice(o.Object, hooks, "webhooks"); err != nil {
				return err
			}
		}
		list = append(list, o)
	}
	a, err := controlplane.NewApplier(b.Config(), "kubectl")
	if err != nil {
		return err
	}
	return a.Objects(ctx, list...)
}

// each calls f for every number below n, several at once.
func each(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func name(i int) string { return fmt.Sprintf("object-%05d", i) }

// createFleet of managed resources at rest: closed, and as their providers left
// them, about 3 KB each.
func (b *gateBench) createFleet(ctx context.Context) error {
	at := time.Now()
	fields := map[string]any{"size": int64(1)}
	for i := range 20 {
		fields[fmt.Sprintf("field%02d", i)] = strings.Repeat("x", 40)
	}
	err := each(b.size.objects, func(i int) error {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "gate.bench.example.org/v1", "kind": fmt.Sprintf("Kind%d", i%b.size.kinds),
			"metadata": map[string]any{"name": name(i), "annotations": map[string]any{
				"kausality.io/management-policies": `["*"]`, "kausality.io/gate": gateText("closed", 1), "crossplane.io/external-name": name(i),
				"kausality.io/trace": `[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"orders","generation":4,"user":"hans@example.com",` +
					`"timestamp":"2026-01-05T09:30:00Z"}]`}},
			"spec": map[string]any{"managementPolicies": []any{"Observe"}, "forProvider": fields},
		}}
		return controlplane.Eventually(ctx, "object "+name(i), 2*time.Minute, func(ctx context.Context) error {
			if _, err := b.of(i).Create(ctx, o, metav1.CreateOptions{}); err != nil {
				return err
			}
			return b.report(ctx, i, 1, 1)
		})
	})
	fmt.Printf("%d managed resources of %d kinds made in %s\n", b.size.objects, b.size.kinds, time.Since(at).Round(time.Second))
	return err
}

func gateText(state string, generation int) string {
	reason := map[string]string{"open": "Changed", "closed": "Confirmed"}[state]
	return fmt.Sprintf(`{"state":%q,"verbs":["Update"],"generation":%d,"at":%q,"paths":["spec.forProvider.size"],"reason":%q}`,
		state, generation, time.Now().UTC().Format(time.RFC3339), reason)
}

// report what a provider reports that has seen a generation, and a size outside.
func (b *gateBench) report(ctx context.Context, i, generation, size int) error {
	body := fmt.Sprintf(`{"status":{"atProvider":{"size":%d},"conditions":[
		{"type":"Synced","status":"True","reason":"ReconcileSuccess","observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"},
		{"type":"Ready","status":"True","reason":"Available","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, size, generation)
	_, err := b.of(i).Patch(ctx, name(i), types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status")
	return err
}

func (b *gateBench) startGate(ctx context.Context) error {
	k, err := b.addresses()
	if err != nil {
		return err
	}
	b.metrics = k.metrics
	kubeconfig, err := b.ServiceAccountKubeconfig(ctx, "kausality-system", "kausality-gate")
	if err != nil {
		return err
	}
	cmd := exec.Command(b.bins["kausality"], "gate", "--kubeconfig="+kubeconfig, "--default-mode=enforce", "--creation-grace=0s",
		"--health-probe-bind-address="+host(k.probe), "--metrics-bind-address="+host(k.metrics))
	cmd.Env = append(os.Environ(), "GOGC=30") // as in the chart
	if b.process, err = b.Run(ctx, "gate", cmd); err != nil {
		return err
	}
	at := time.Now()
	err = controlplane.Eventually(ctx, "the gate to be ready", 3*time.Minute, func(ctx context.Context) error {
		return controlplane.Answers(ctx, k.probe)
	})
	fmt.Printf("gate ready after %s\n\n", time.Since(at).Round(100*time.Millisecond))
	return err
}

// resident memory, once it no longer grows: the largest of half a minute.
func (b *gateBench) resident(ctx context.Context) error {
	const samples = 30
	largest := 0
	for range samples {
		kb, err := b.memory("VmRSS")
		if err != nil {
			return err
		}
		largest = max(largest, kb)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second): // memory is sampled over time
		}
	}
	peak, err := b.memory(controlplane.Peak)
	b.print("resident, at rest, largest of 30 s", float64(largest)/1024, gateResident, "MiB")
	b.print("resident, peak since its start", float64(peak)/1024, 0, "MiB")
	return err
}

// memory of the gate in KiB, by its name in /proc.
func (b *gateBench) memory(what string) (int, error) { return b.process.Memory(what) }
