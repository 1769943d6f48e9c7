package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// The aims, for 10,000 changes of 40 causes on 2 cores.
const (
	pageSize     = 60   // KB of the first page
	pageAnswer   = 100. // ms, p95 with a warm cache
	pageEvent    = 1.   // seconds from an event in the cluster to the page, p95
	pageResident = 128  // MiB
)

const (
	// pageCauses of the changes, and pageParents.
	pageCauses  = 40
	pageParents = 200
	// pageAnswers of the first page, and pageEvents in the cluster, that are measured.
	pageAnswers = 200
	pageEvents  = 20
	// pageDeadline of all events.
	pageDeadline = 3 * time.Minute
)

// pageBenchmark is kubectl kausality ui, and a browser that looks at it.
type pageBenchmark struct {
	*bench
	aims
	size    options
	process *controlplane.Process
	browser http.Client
	// base is the URL of the page.
	base string
}

// pageBench measures the page.
func pageBench(ctx context.Context, o options) error {
	common, err := start(ctx)
	if err != nil {
		return err
	}
	defer common.Stop()
	b := &pageBenchmark{bench: common, size: o}
	for _, step := range []func(context.Context) error{b.createDrifts, b.serve, b.answers, b.events, b.resident} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return b.err()
}

// createDrifts, as the webhook reports them.
func (b *pageBenchmark) createDrifts(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, b.bins[parts.Kausality], "manifests", "--crds-only").Output()
	if err != nil {
		return fmt.Errorf("cannot print manifests: %w", err)
	}
	if err := b.Apply(ctx, out); err != nil {
		return err
	}
	if err := b.Define(ctx, controlplane.Kind{Group: "example.org", Kind: "Shop", Categories: []string{"composite"}}); err != nil {
		return err
	}
	if err := each(pageParents, func(i int) error {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Shop",
			"metadata": map[string]any{"name": fmt.Sprintf("shop-%d", i), "annotations": map[string]any{v1alpha1.AnnotationKeyTrace: "[]"}}}}
		_, err := b.client.Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "shops"}).Namespace("default").
			Create(ctx, o, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	at := time.Now()
	if err := each(b.size.objects, func(i int) error { return b.createDrift(ctx, i) }); err != nil {
		return err
	}
	fmt.Printf("%d changes of %d causes after %s\n\n", b.size.objects, pageCauses, time.Since(at).Round(time.Second))
	return nil
}

func (b *pageBenchmark) createDrift(ctx context.Context, i int) error {
	id := fmt.Sprintf("%016x", i)
	of := v1alpha1.ObjectReference{APIVersion: "example.org/v1", Kind: "Shop", Namespace: "default", Name: fmt.Sprintf("shop-%d", i%pageParents)}
	d := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: id}}
	d.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Drift"}
	d.Spec = v1alpha1.DriftSpec{
		ID: id, Digest: id + strings.Repeat("ab", 24), Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE", User: "robot", Parent: of,
		SuggestedApproval: fmt.Sprintf("kubectl annotate -n default shops.example.org %s kausality.io/approve-%s=once", of.Name, id),
		Child:             v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "default", Name: fmt.Sprintf("database-%d", i)},
		Difference: []v1alpha1.FieldDifference{
			{Path: "spec.forProvider.size", Verb: "Mutate", Old: "20", New: "50"},
			{Path: "spec.forProvider.description", Verb: "Mutate", Old: `"as it was"`, New: fmt.Sprintf("%q", strings.Repeat("long ", i%50))},
		},
		Causes: []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: fmt.Sprintf("shops-%d", i%pageCauses), Author: "alice@example.com"}},
	}
	since := metav1.Now()
	status := v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &since, Lacks: "0 of 2 approvals; needs 2 of group dba"}
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	if err != nil {
		return err
	}
	client := b.client.Resource(v1alpha1.GroupVersion.WithResource("drifts")).Namespace("default")
	stored, err := client.Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if stored.Object["status"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&status); err != nil {
		return err
	}
	_, err = client.UpdateStatus(ctx, stored, metav1.UpdateOptions{})
	return err
}

// serve the page, and open it.
func (b *pageBenchmark) serve(ctx context.Context) error {
	bins, err := parts.Ensure(ctx, os.Stdout, "", parts.KubectlKausality)
	if err != nil {
		return err
	}
	kubeconfig, err := b.Kubeconfig("page", "bench", "system:masters")
	if err != nil {
		return err
	}
	cmd := exec.Command(bins[parts.KubectlKausality], "--kubeconfig="+kubeconfig, "ui", "--no-browser")
	cmd.Env = append(os.Environ(), "HOME="+b.Dir())
	if b.process, err = b.Run(ctx, "page", cmd); err != nil {
		return err
	}
	printed := regexp.MustCompile(`(?m)^(http://127\.0\.0\.1:\d+/[0-9a-f]+)(/enter\?token=\S+)$`)
	enter := ""
	err = controlplane.Eventually(ctx, "the page to print its URL", time.Minute, func(context.Context) error {
		out, err := os.ReadFile(filepath.Join(b.Dir(), "logs", "page.log"))
		if err != nil {
			return err
		}
		m := printed.FindStringSubmatch(string(out))
		if m == nil {
			return fmt.Errorf("it has printed %q", out)
		}
		b.base, enter = m[1], m[1]+m[2]
		return nil
	})
	if err != nil {
		return err
	}
	if b.browser.Jar, err = cookiejar.New(nil); err != nil {
		return err
	}
	_, err = b.get(ctx, enter)
	return err
}

// get a page.
func (b *pageBenchmark) get(ctx context.Context, url string) (body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := b.browser.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, resp.Status, raw)
	}
	return string(raw), err
}

// errNotShown is the error of a first page that shows another number of changes.
var errNotShown = errors.New("the first page does not show")

// first page, which has to show a number of changes.
func (b *pageBenchmark) first(ctx context.Context, changes int) (string, error) {
	body, err := b.get(ctx, b.base+"/")
	if want := fmt.Sprintf("%d changes of %d causes", changes, pageCauses); err == nil && !strings.Contains(body, want) {
		err = fmt.Errorf("%w %q", errNotShown, want)
	}
	return body, err
}

// answers with the first page.
func (b *pageBenchmark) answers(ctx context.Context) error {
	at := time.Now()
	body, err := b.first(ctx, b.size.objects)
	if err != nil {
		return err
	}
	b.print("the first page, cold", time.Since(at).Seconds()*1000, 0, "ms")
	b.print("the first page", float64(len(body))/1000, pageSize, "KB")
	took, err := timed(pageAnswers, func(int) error {
		_, err := b.first(ctx, b.size.objects)
		return err
	})
	if err != nil {
		return err
	}
	b.print("the first page, p50", quantile(took, 0.5).Seconds()*1000, 0, "ms")
	b.print("the first page, p95", quantile(took, 0.95).Seconds()*1000, pageAnswer, "ms")
	return nil
}

// events in the cluster reach the open page.
func (b *pageBenchmark) events(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, pageDeadline)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"/events", nil)
	if err != nil {
		return err
	}
	resp, err := b.browser.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	stream := bufio.NewScanner(resp.Body)
	next := func(event string) error {
		for stream.Scan() {
			if stream.Text() == "event: "+event {
				return nil
			}
		}
		return errors.Join(errors.New("the stream has ended, or nothing came in time"), stream.Err())
	}
	if err := next("open"); err != nil {
		return err
	}
	const settles = 15 * time.Second // the watch has listed all changes by then
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settles):
	}
	took, err := timed(pageEvents, func(n int) error {
		if err := b.createDrift(ctx, b.size.objects+n); err != nil {
			return err
		}
		for {
			if err := next("change"); err != nil {
				return err
			}
			if _, err := b.first(ctx, b.size.objects+n+1); !errors.Is(err, errNotShown) {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	b.print("from an event to the page, p50", quantile(took, 0.5).Seconds(), 0, "s")
	b.print("from an event to the page, p95", quantile(took, 0.95).Seconds(), pageEvent, "s")
	return nil
}

// resident memory of the process.
func (b *pageBenchmark) resident(context.Context) error {
	kb, err := b.process.Memory(controlplane.Peak)
	if err != nil {
		return err
	}
	b.print("resident, peak since its start", float64(kb)/1024, pageResident, "MiB")
	return nil
}
