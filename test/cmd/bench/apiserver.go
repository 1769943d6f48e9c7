package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// addedByPlugin is what the plugin may add to a request that it allows, in the median, in microseconds.
const addedByPlugin = 100

// embedded is what is compared: two API servers on one etcd, one with the plugin of Kausality, and one with a plugin that does nothing, which
// also calls the webhook.
type embedded struct {
	name, group string
	second      bool
	client      dynamic.Interface
	took        []time.Duration
}

const noopServer = "apiserver-noop"

const (
	nothing = iota
	unguarded
	plugged
	called
)

// apiServer measures what the admission plugin adds to a request.
func apiServer(ctx context.Context, o options) error {
	compared := []*embedded{
		nothing:   {name: "a plugin that does nothing", group: "nothing", second: true},
		unguarded: {name: "the plugin, an unguarded kind", group: "unguarded"},
		plugged:   {name: "the plugin (trace written)", group: "plugged"},
		called:    {name: "the webhook (trace written)", group: "called", second: true},
	}
	b, second, err := startEmbedded(ctx, compared[plugged].group+".bench.example.org")
	if err != nil {
		return err
	}
	defer b.Stop()
	if err := b.prepareEmbedded(ctx, second, compared); err != nil {
		return err
	}
	const warmUp = 100
	var spent float64
	for _, n := range []int{warmUp, o.rounds} {
		for _, e := range compared {
			e.took = nil
		}
		if spent, err = b.spent(ctx); err != nil {
			return err
		}
		if err := embeddedRounds(ctx, n, compared); err != nil {
			return err
		}
	}
	after, err := b.spent(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d rounds, a PATCH of a 3.5 KB custom resource each, one at a time, in turn:\n\n%-32s %10s %10s %10s\n", o.rounds, "", "median", "p90", "p99")
	for _, e := range compared {
		fmt.Printf("%-32s %10s %10s %10s\n", e.name, ms(quantile(e.took, 0.5)), ms(quantile(e.took, 0.9)), ms(quantile(e.took, 0.99)))
	}
	fmt.Println()
	var f aims
	added := func(i, to int) float64 {
		return float64(quantile(differences(compared[i].took, compared[to].took), 0.5)) / float64(time.Microsecond)
	}
	f.print("added by the plugin, median of differences", added(plugged, nothing), addedByPlugin, "µs")
	f.print("the same, to an unguarded kind of the same API server", added(plugged, unguarded), 0, "µs")
	f.print("in the plugin itself, mean by the API server's metric", (after-spent)*1e6/float64(o.rounds), 0, "µs")
	f.print("added by the webhook, median of differences", added(called, nothing), 0, "µs")
	for _, p := range []struct {
		name string
		*controlplane.Process
	}{
		{"the API server with the plugin", b.Process(parts.KubeAPIServer)}, {"the API server without it", b.Process(noopServer)},
		{"the webhook", b.kausality.Process},
	} {
		kib, err := p.Memory(controlplane.Peak)
		if err != nil {
			return err
		}
		f.print("resident at most, "+p.name, float64(kib)/1024, 0, "MiB")
	}
	return f.err()
}

// startEmbedded starts both API servers; the plugin guards one group.
func startEmbedded(ctx context.Context, group string) (b *bench, second string, err error) {
	b = &bench{}
	if b.bins, err = parts.Ensure(ctx, os.Stdout, "", parts.Kausality); err != nil {
		return nil, "", err
	}
	b.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stdout, APIServer: parts.KubeAPIServerKausality, AdmissionPlugins: map[string]any{
		"Kausality": map[string]any{"apiVersion": "apiserver.kausality.io/v1alpha1", "kind": "KausalityConfiguration", "resources": []string{"*." + group},
			"defaultMode": "enforce"},
	}})
	if err != nil {
		return nil, "", err
	}
	b.certs = filepath.Join(b.Dir(), "certs")
	if err = b.CA().ServingCert(b.certs); err == nil {
		second, err = b.SecondAPIServer(ctx, noopServer, "--disable-admission-plugins=Kausality", "--enable-admission-plugins=Noop")
	}
	if err != nil {
		b.Stop()
	}
	return b, second, err
}

// prepareEmbedded defines what is compared, and creates an object of each kind.
func (b *bench) prepareEmbedded(ctx context.Context, second string, compared []*embedded) error {
	kinds := make([]controlplane.Kind, 0, len(compared))
	for _, e := range compared {
		config := b.Config()
		config.QPS = -1
		if e.second {
			config.Host = second
		}
		var err error
		if e.client, err = dynamic.NewForConfig(config); err != nil {
			return err
		}
		kinds = append(kinds, controlplane.Kind{Group: e.group + ".bench.example.org", Kind: "Thing"})
	}
	if err := b.Define(ctx, kinds...); err != nil {
		return err
	}
	var err error
	if b.kausality, err = b.startKausality(ctx, []string{"*." + compared[called].group + ".bench.example.org"}); err != nil {
		return err
	}
	for _, e := range compared {
		t := thing(resource(e.group).Group, "thing")
		if !strings.Contains(e.name, "trace") {
			t.SetAnnotations(map[string]string{"bench.example.org/trace": patched}) // as long as a trace
		}
		if err := controlplane.Eventually(ctx, e.name, time.Minute, func(ctx context.Context) error {
			_, err := e.client.Resource(resource(e.group)).Namespace("default").Create(ctx, t, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// embeddedRounds of one request of each kind.
func embeddedRounds(ctx context.Context, n int, compared []*embedded) error {
	for i := range n {
		for j := range compared {
			e := compared[(i+j)%len(compared)] // in turn, so that none is always first
			at := time.Now()
			_, err := e.client.Resource(resource(e.group)).Namespace("default").Patch(ctx, "thing", types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"count":%d}}`, at.UnixNano()), metav1.PatchOptions{})
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			e.took = append(e.took, time.Since(at))
		}
	}
	return nil
}

// spent is how many seconds the API server has spent in the plugin since it started, in updates.
func (b *bench) spent(ctx context.Context) (seconds float64, err error) {
	client, err := kubernetes.NewForConfig(b.Config())
	if err != nil {
		return 0, err
	}
	raw, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	all, err := controlplane.ParseMetrics(bytes.NewReader(raw))
	if err != nil {
		return 0, err
	}
	for _, m := range all["apiserver_admission_controller_admission_duration_seconds"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["name"] == "Kausality" && labels["operation"] == "UPDATE" {
			seconds += m.GetHistogram().GetSampleSum()
		}
	}
	return seconds, nil
}
