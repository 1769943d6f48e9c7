package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
)

// The aims, for 10,000 objects on 2 cores, of which the API server, etcd and the load take the larger part.
const (
	rolloutRate   = 100 // objects let through a second, at least
	rolloutWrites = 2   // API writes an object, to let it through
	rolloutHeap   = 2   // live heap meanwhile, in proportion to that before: each object keeps its approval from then on
)

const (
	rolloutGroup      = "rollout.bench.example.org"
	rolloutController = "system:serviceaccount:apps:app-controller"
	rolloutName       = "larger"
	// rolloutAfter is the time of the only wave; it ends as soon as all its objects are healthy.
	rolloutAfter = time.Hour
)

// rolloutBench is a Rollout on its control plane.
type rolloutBench struct {
	*bench
	objects    int
	hans, crew dynamic.Interface
	webhook    *kausality
	// rest: live heap before anything is let through; peak: the largest meanwhile. Both in bytes.
	rest, peak float64
	missed     []string
}

// rollout measures a Rollout: how fast it lets objects through, by how many writes, and what the webhook holds meanwhile.
func rollout(ctx context.Context, o options) error {
	common, err := start(ctx)
	if err != nil {
		return err
	}
	defer common.Stop()
	b := &rolloutBench{bench: common, objects: o.objects}
	for _, step := range []func(context.Context) error{b.install, b.fill, b.refuse, b.carryOut} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if len(b.missed) > 0 {
		return fmt.Errorf("the aim is missed: %s", strings.Join(b.missed, ", "))
	}
	return nil
}

func (b *rolloutBench) install(ctx context.Context) error {
	if err := b.Define(ctx, controlplane.Kind{Group: rolloutGroup, Kind: "App"}, controlplane.Kind{Group: rolloutGroup, Kind: "Part"}); err != nil {
		return err
	}
	for user, to := range map[string]*dynamic.Interface{"hans@example.com": &b.hans, rolloutController: &b.crew} {
		config := b.ConfigAs(user, "system:masters")
		config.QPS = -1
		var err error
		if *to, err = dynamic.NewForConfig(config); err != nil {
			return err
		}
	}
	var err error
	if b.webhook, err = b.startKausality(ctx, []string{"*." + rolloutGroup}); err != nil {
		return err
	}
	return b.webhook.awaitReady(ctx)
}

func (b *rolloutBench) of(c dynamic.Interface, resource string) dynamic.ResourceInterface {
	return c.Resource(schema.GroupVersionResource{Group: rolloutGroup, Version: "v1", Resource: resource}).Namespace("default")
}

// fill the cluster with Apps that settled, each with a Part of their controller.
func (b *rolloutBench) fill(ctx context.Context) error {
	at := time.Now()
	err := each(b.objects, func(i int) error {
		return controlplane.Eventually(ctx, "App "+name(i), 2*time.Minute, func(ctx context.Context) error {
			app := thing(rolloutGroup, name(i))
			app.SetKind("App")
			app, err := b.of(b.hans, "apps").Create(ctx, app, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			p := part(app, name(i))
			p.SetAPIVersion(rolloutGroup + "/v1")
			if _, err := b.of(b.crew, "parts").Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return err
			}
			return b.ready(ctx, i, app.GetGeneration())
		})
	})
	if err != nil {
		return err
	}
	err = each(b.objects, func(i int) error {
		return controlplane.EventuallyEvery(ctx, 200*time.Millisecond, name(i)+" to settle", 10*time.Minute, func(ctx context.Context) error {
			o, err := b.of(b.hans, "apps").Get(ctx, name(i), metav1.GetOptions{})
			if err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] != strconv.FormatInt(o.GetGeneration(), 10) {
				err = errors.New("it has not settled")
			}
			return err
		})
	})
	fmt.Printf("%d objects have settled after %s\n", b.objects, time.Since(at).Round(time.Second))
	return err
}

// ready is what the controller reports of an App.
func (b *rolloutBench) ready(ctx context.Context, i int, generation int64) error {
	body := fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"conditions":[{"type":"Ready","status":"True","reason":"Any","lastTransitionTime":%q}]}}`,
		generation, time.Now().UTC().Format(time.RFC3339))
	_, err := b.of(b.crew, "apps").Patch(ctx, name(i), types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// want another size of a Part, as the controller tries repeatedly.
func (b *rolloutBench) want(ctx context.Context, i int) error {
	_, err := b.of(b.crew, "parts").Patch(ctx, name(i), types.MergePatchType, size(2), metav1.PatchOptions{})
	return err
}

// refuse what the controller wants of all Parts, until a Drift shows each.
func (b *rolloutBench) refuse(ctx context.Context) error {
	at := time.Now()
	err := each(b.objects, func(i int) error {
		if err := b.want(ctx, i); !refused(err) {
			return fmt.Errorf("a change of %s that was not wanted: %w", name(i), err)
		}
		return pause(ctx, 20*time.Millisecond) // the Drifts are written after the answers, from a queue that is bounded
	})
	if err != nil {
		return err
	}
	drifts := b.client.Resource(v1alpha1.GroupVersion.WithResource("drifts")).Namespace("default")
	err = controlplane.EventuallyEvery(ctx, time.Second, "all Drifts", 5*time.Minute, func(ctx context.Context) error {
		have := map[string]bool{}
		for token := ""; ; {
			list, err := drifts.List(ctx, metav1.ListOptions{Limit: 500, Continue: token})
			if err != nil {
				return err
			}
			for i := range list.Items {
				child, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "child", "name")
				have[child] = true
			}
			if token = list.GetContinue(); token == "" {
				break
			}
		}
		for i := range b.objects {
			if !have[name(i)] {
				_ = b.want(ctx, i) // one that was dropped is recorded when it occurs again
			}
		}
		if len(have) < b.objects {
			return fmt.Errorf("there are %d", len(have))
		}
		return nil
	})
	fmt.Printf("%d changes refused and recorded after %s\n", b.objects, time.Since(at).Round(time.Second))
	return err
}

// carryOut a Rollout of one wave, from its plan until all objects are healthy.
func (b *rolloutBench) carryOut(ctx context.Context) error {
	if err := pause(ctx, 30*time.Second); err != nil { // what the refusals left to write is written
		return err
	}
	rest, err := b.webhook.figures(ctx)
	if err != nil {
		return err
	}
	b.rest = rest.live
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { b.sample(ctx) })

	begun := time.Now()
	plan, err := b.begin(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\na Rollout of %d objects:\n", b.objects)
	b.print("planned after", time.Since(begun).Seconds(), 0, "s")

	voted := time.Now()
	after, err := b.letThrough(ctx, plan)
	if err != nil {
		return err
	}
	done, err := b.land(ctx)
	if err != nil {
		return err
	}
	last, err := b.written(ctx)
	if err != nil {
		return err
	}
	if done.Done != int32(b.objects) { //nolint:gosec // It is a flag of some thousands.
		return fmt.Errorf("%d objects are done: %s", done.Done, done.Message)
	}
	b.print("completed after", time.Since(voted).Seconds(), 0, "s")
	b.print("further API writes an object, until it settled again", (last-after)/float64(b.objects), 0, "")
	cancel()
	wg.Wait()
	b.print("live heap before", mib(b.rest), 0, "MiB")
	b.print("live heap meanwhile, largest", mib(b.peak), rolloutHeap*mib(b.rest), "MiB")
	return nil
}

// letThrough all objects of a plan by a vote, and return what the webhook has written by then.
func (b *rolloutBench) letThrough(ctx context.Context, plan string) (float64, error) {
	before, err := b.written(ctx)
	if err != nil {
		return 0, err
	}
	vote := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"once"}}}`, v1alpha1.AnnotationKeyApprovePrefix+plan)
	voted := time.Now()
	if _, err := b.rollouts(b.hans).Patch(ctx, rolloutName, types.MergePatchType, vote, metav1.PatchOptions{}); err != nil {
		return 0, err
	}
	if _, err := b.until(ctx, "all objects to be let through", func(s *v1alpha1.RolloutStatus) bool { return s.ThroughAt != nil }); err != nil {
		return 0, err
	}
	through := time.Since(voted)
	after, err := b.written(ctx)
	if err != nil {
		return 0, err
	}
	if after == before {
		return 0, fmt.Errorf("the webhook's metrics count no writes")
	}
	b.atLeast("objects let through a second", float64(b.objects)/through.Seconds(), rolloutRate)
	b.print("API writes an object to let it through", (after-before)/float64(b.objects), rolloutWrites, "")
	return after, nil
}

// sample the live heap until the context ends.
func (b *rolloutBench) sample(ctx context.Context) {
	for pause(ctx, 2*time.Second) == nil {
		if f, err := b.webhook.figures(ctx); err == nil {
			b.peak = max(b.peak, f.live)
		}
	}
}

func (b *rolloutBench) rollouts(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRollouts)).Namespace("default")
}

// begin a Rollout of what the Drifts name as their cause, and return the id of its plan.
func (b *rolloutBench) begin(ctx context.Context) (string, error) {
	list, err := b.client.Resource(v1alpha1.GroupVersion.WithResource("drifts")).Namespace("default").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	d := &v1alpha1.Drift{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[0].Object, d); err != nil {
		return "", err
	}
	cause := map[string]any{}
	for _, c := range d.Spec.Causes {
		fields := map[v1alpha1.CauseKind]string{v1alpha1.CauseController: "controller", v1alpha1.CauseImage: "image", v1alpha1.CauseUser: "user"}
		cause[fields[c.Kind]] = c.Name
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindRollout,
		"metadata": map[string]any{"name": rolloutName}, "spec": map[string]any{"cause": cause,
			"advance": map[string]any{"after": rolloutAfter.String()}, "waves": []any{map[string]any{"percent": int64(100)}}}}}
	if _, err := b.rollouts(b.hans).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	s, err := b.until(ctx, "the plan", func(s *v1alpha1.RolloutStatus) bool {
		return s.Plan != nil && int(s.Plan.Objects) == b.objects && s.Lacks != ""
	})
	if err != nil {
		return "", err
	}
	return s.Plan.ID, nil
}

// land all changes, as their controller does that tries each again, and wait until the Rollout is completed.
func (b *rolloutBench) land(ctx context.Context) (*v1alpha1.RolloutStatus, error) {
	var landed atomic.Int64
	err := each(b.objects, func(i int) error {
		err := controlplane.EventuallyEvery(ctx, 100*time.Millisecond, "the change of "+name(i), time.Minute, func(ctx context.Context) error {
			return b.want(ctx, i)
		})
		if err == nil {
			landed.Add(1)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%d changes landed: %w", landed.Load(), err)
	}
	return b.until(ctx, "the Rollout to be completed", func(s *v1alpha1.RolloutStatus) bool { return s.Phase == v1alpha1.RolloutCompleted })
}

// until the Rollout is as is wants.
func (b *rolloutBench) until(ctx context.Context, what string, is func(*v1alpha1.RolloutStatus) bool) (*v1alpha1.RolloutStatus, error) {
	o := &v1alpha1.Rollout{}
	err := controlplane.EventuallyEvery(ctx, 100*time.Millisecond, what, 30*time.Minute, func(ctx context.Context) error {
		u, err := b.rollouts(b.hans).Get(ctx, rolloutName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o = &v1alpha1.Rollout{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil || !is(&o.Status) {
			return fmt.Errorf("it is %s, %s: %w", o.Status.Phase, o.Status.Message, err)
		}
		return nil
	})
	return &o.Status, err
}

// written requests of the webhook that the API server has taken so far; reviews of access change nothing.
func (b *rolloutBench) written(ctx context.Context) (n float64, err error) {
	resp, err := fetch(ctx, b.webhook.metrics)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		labels, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(labels, "rest_client_requests_total{") || strings.Contains(labels, `method="GET"`) || !strings.Contains(labels, `code="2`) {
			continue
		}
		one, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read %q: %w", lines.Text(), err)
		}
		n += one
	}
	return n, lines.Err()
}

// print a figure, against what it may be at most where aim is not 0.
func (b *rolloutBench) print(what string, figure, aim float64, unit string) {
	line := fmt.Sprintf("%-58s %8.2f %s", what, figure, unit)
	if aim > 0 {
		line += fmt.Sprintf("   (aim: at most %.1f)", aim)
		if figure > aim {
			line += " MISSED"
			b.missed = append(b.missed, what)
		}
	}
	fmt.Println(strings.TrimRight(line, " "))
}

// atLeast prints a figure against what it must be at least.
func (b *rolloutBench) atLeast(what string, figure, aim float64) {
	line := fmt.Sprintf("%-58s %8.2f    (aim: at least %.0f)", what, figure, aim)
	if figure < aim {
		line += " MISSED"
		b.missed = append(b.missed, what)
	}
	fmt.Println(line)
}
