package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

const (
	// steadyFor is how long nothing may move; steadyWithin is how long it may
	// take until that has been seen.
	steadyFor    = time.Minute
	steadyWithin = 4 * time.Minute
	// minApplies of each resource within that time: Crossplane reconciles every
	// composite every fifteen seconds (see story.Options.SyncInterval).
	minApplies = 3
	// settleGrace as by default: an intent that comes while Crossplane reconciles is reported as
	// observed when that ends, and on a busy machine the next reconcile comes seconds later.
	settleGrace = 10 * time.Second
	// pauseBeforeChange is the time between a user's request and their next change.
	pauseBeforeChange = 80 * time.Second
)

// loner is a kind that webhook and gate are not configured to watch.
var loner = story.Definition{
	Group: "example.net", Version: "v1alpha1", Kind: "XLoner", Plural: "xloners", Scope: "Cluster", Spec: "{size: {type: integer}}",
}

var loners = loner.Resource()

const lonerResources = `
      - name: settings
        base:
          apiVersion: kubernetes.crossplane.io/v1alpha2
          kind: Object
          spec:
            providerConfigRef: {name: default}
            forProvider:
              manifest: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: loner-settings}, data: {size: "0"}}
        patches:
        - type: FromCompositeFieldPath
          fromFieldPath: spec.size
          toFieldPath: spec.forProvider.manifest.data.size
          transforms: [{type: convert, convert: {toType: string}}]
      - name: plain
        base: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default}, data: {size: "0"}}
        readinessChecks: [{type: None}]
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: data.size, transforms: [{type: convert, convert: {toType: string}}]}
`

// lonerGuard is the function with a gate of its own, and without policies.
const lonerGuard = `
  - step: kausality
    functionRef: {name: function-kausality}
    input:
      apiVersion: kausality.fn.crossplane.io/v1alpha1
      kind: Input
      mode: enforce
      gate: {managementPolicies: Managed}
      policySelector: {}`

// guarded is a composite and what guards it.
type guarded struct {
	by       string
	resource schema.GroupVersionResource
	// namespace is empty for a cluster-scoped one.
	namespace, kind string
	// composition is made from the example's; nil where there is one.
	composition func(steps []any) []any
}

var guards = []guarded{
	{
		by: "webhook-only", resource: story.XDatabases, namespace: "default", kind: "XDatabase",
		composition: func(steps []any) []any { return steps[:len(steps)-1] },
	},
	{by: "both", resource: story.XDatabases, namespace: "default", kind: "XDatabase", composition: func(steps []any) []any { return steps }},
	{by: "both-masking", resource: story.XDatabases, namespace: "default", kind: "XDatabase", composition: masking},
	{by: "function-only", resource: loners, kind: "XLoner"},
}

// masking has the function mask managementPolicies, though webhook and gate run
// and do so, too.
func masking(steps []any) []any {
	last, _ := steps[len(steps)-1].(map[string]any)
	in, _ := last["input"].(map[string]any)
	in["gate"] = map[string]any{"managementPolicies": "Managed"}
	return steps
}

// TestSteady: with the function only, the webhook only and both, and with both
// masking managementPolicies, at the same time and under Crossplane's own circuit
// breaker, an intent is carried out, and then neither a composite nor anything
// composed is written for a minute, although Crossplane continues to apply all of
// it. The breaker never opens
// (KR-09-12, KR-09-13, KR-02-14).
func TestSteady(t *testing.T) {
	ctx, e := story.StartTest(t, story.Options{Webhook: true, Function: true, SteadyBreaker: true, SyncInterval: 15 * time.Second,
		SettleGrace: settleGrace, ProviderArgs: []string{"--falsify=" + falsified}})
	client, err := dynamic.NewForConfig(e.Config())
	if err != nil {
		t.Fatal(err)
	}
	offer(ctx, t, e)
	for _, g := range guards {
		g.ask(ctx, t, e, 20)
	}
	for _, g := range guards {
		g.settles(ctx, t, client, 20)
	}
	neverOpened(ctx, t, e) // from here on the condition Responsive counts: other scenarios have composites here, too
	var since time.Time
	t.Run("together", func(t *testing.T) { // what is awaited elsewhere disturbs no scenario
		t.Run("calm", func(t *testing.T) {
			t.Parallel()
			// A composite's creation alone takes most of what the breaker lets
			// through at once; it gives one event a second, of which the
			// composites' and their resources' reconciles take nearly half.
			pause := time.NewTimer(pauseBeforeChange)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			for _, g := range guards {
				g.ask(ctx, t, e, 50)
			}
			for _, g := range guards {
				g.settles(ctx, t, client, 50)
			}
			since = calm(ctx, t, client)
		})
		gates(ctx, t, e)
	})
	all, err := everything(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	applied(t, e, all, since)
}

// offer the kinds and Compositions.
func offer(ctx context.Context, t *testing.T, e *story.Env) {
	t.Helper()
	for _, manifest := range [][]byte{loner.XRD(), []byte(story.LegacyProviderConfig), loner.Composition("function-only", lonerResources, lonerGuard)} {
		require.NoError(t, e.Apply(ctx, manifest))
	}
	for _, g := range guards {
		if g.composition == nil {
			continue
		}
		raw, err := story.Example("composition.yaml")
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			t.Fatal(err)
		}
		steps, _, _ := unstructured.NestedSlice(o.Object, "spec", "pipeline")
		o.SetName(g.by)
		if err := unstructured.SetNestedSlice(o.Object, g.composition(steps), "spec", "pipeline"); err != nil {
			t.Fatal(err)
		}
		apply(ctx, t, e, o)
	}
}

func apply(ctx context.Context, t *testing.T, e *story.Env, o *unstructured.Unstructured) {
	t.Helper()
	raw, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := controlplane.Eventually(ctx, "to apply "+o.GetKind()+" "+o.GetName(), 30*time.Second, func(ctx context.Context) error {
		return e.Apply(ctx, raw)
	}); err != nil {
		t.Fatal(err)
	}
}

// request a size.
func (g guarded) ask(ctx context.Context, t *testing.T, e *story.Env, size int64) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"size": size, "crossplane": map[string]any{"compositionRef": map[string]any{"name": g.by}},
	}}}
	o.SetAPIVersion(g.resource.GroupVersion().String())
	o.SetKind(g.kind)
	o.SetNamespace(g.namespace)
	o.SetName(g.by)
	apply(ctx, t, e, o)
}

// settles at a size: the composite is ready, what it is composed of has the
// size, and its guard remembers that it settled.
func (g guarded) settles(ctx context.Context, t *testing.T, client dynamic.Interface, size int64) {
	t.Helper()
	if err := controlplane.Eventually(ctx, fmt.Sprintf("%s to settle at size %d", g.by, size), 90*time.Second, func(ctx context.Context) error {
		xr, err := client.Resource(g.resource).Namespace(g.namespace).Get(ctx, g.by, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := controlplane.ConditionTrue(xr, "Ready"); err != nil {
			return err
		}
		return g.settled(ctx, client, xr, size)
	}); err != nil {
		t.Fatal(err)
	}
}

func (g guarded) settled(ctx context.Context, client dynamic.Interface, xr *unstructured.Unstructured, size int64) error {
	all, err := composed(ctx, client, xr)
	if err != nil {
		return err
	}
	found := false
	for _, o := range all {
		raw := fmt.Sprint(o.Object["spec"], o.Object["data"])
		found = found || strings.Contains(raw, fmt.Sprintf("size:%d", size))
		hops, err := story.Trace(o)
		if err != nil {
			return err
		}
		if err := undisturbed(o); err != nil {
			return err
		}
		if g.resource == loners && !hops[0].Settled {
			return fmt.Errorf("the XR's hop in %s %s is %+v", o.GetKind(), o.GetName(), hops[0])
		}
	}
	if !found {
		return fmt.Errorf("nothing of %d objects has size %d", len(all), size)
	}
	if g.resource == loners {
		return nil
	}
	hops, err := story.Trace(xr)
	if err != nil {
		return err
	}
	if want := fmt.Sprint(hops[len(hops)-1].Generation); xr.GetAnnotations()["kausality.io/settled-generation"] != want {
		return fmt.Errorf("the intent at generation %s has not settled: %v", want, xr.GetAnnotations())
	}
	return nil
}

// undisturbed: nothing is held of what is composed, and where it is masked its author's
// policies are remembered as they are, though two may mask it.
func undisturbed(o *unstructured.Unstructured) error {
	a := o.GetAnnotations()
	if held := a[v1alpha1.AnnotationKeyHeld]; held != "" {
		return fmt.Errorf("%s %s is held: %s", o.GetKind(), o.GetName(), held)
	}
	if author := a[v1alpha1.AnnotationKeyManagementPolicies]; author != "" && author != `["*"]` {
		return fmt.Errorf("%s %s remembers policies %s that no client wrote", o.GetKind(), o.GetName(), author)
	}
	return nil
}

// resourceOf the kinds that are composed.
var resourceOf = map[string]schema.GroupVersionResource{
	"Database.cloud.example.org":        story.Databases,
	"Object.kubernetes.m.crossplane.io": story.Settings,
	"Object.kubernetes.crossplane.io":   {Group: "kubernetes.crossplane.io", Version: "v1alpha2", Resource: "objects"},
	"ConfigMap":                         {Version: "v1", Resource: "configmaps"},
}

// composed resources of a composite.
func composed(ctx context.Context, client dynamic.Interface, xr *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	refs, _, _ := unstructured.NestedSlice(xr.Object, "spec", "crossplane", "resourceRefs")
	if len(refs) == 0 {
		return nil, fmt.Errorf("%s has no resourceRefs", xr.GetName())
	}
	out := make([]*unstructured.Unstructured, 0, len(refs))
	for _, r := range refs {
		ref := &unstructured.Unstructured{Object: r.(map[string]any)}
		name, _, _ := unstructured.NestedString(ref.Object, "name")
		namespace, _, _ := unstructured.NestedString(ref.Object, "namespace")
		if namespace == "" {
			namespace = xr.GetNamespace()
		}
		if kind := ref.GroupVersionKind().GroupKind().String(); resourceOf[kind].Resource == "" {
			return nil, fmt.Errorf("unexpected %s %s", kind, name)
		}
		o, err := client.Resource(resourceOf[ref.GroupVersionKind().GroupKind().String()]).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// calm: no resourceVersion changes, and Crossplane's circuit breaker delays no event
// of a composite. It returns since when.
func calm(ctx context.Context, t *testing.T, client dynamic.Interface) time.Time {
	t.Helper()
	var was map[string]string
	since := time.Now()
	if err := controlplane.Eventually(ctx, fmt.Sprintf("nothing to move for %s", steadyFor), steadyWithin, func(ctx context.Context) error {
		all, err := everything(ctx, client)
		if err != nil {
			return err
		}
		now := map[string]string{}
		for _, o := range all {
			now[o.by+"/"+o.GetKind()+"/"+o.GetName()] = o.GetResourceVersion()
			if err := controlplane.ConditionTrue(o.Unstructured, "Responsive"); o.composite && err != nil {
				t.Fatalf("%s: Crossplane's circuit breaker: %v", o.by, err)
			}
			if err := undisturbed(o.Unstructured); err != nil {
				return fmt.Errorf("%s: %w", o.by, err)
			}
		}
		if !maps.Equal(now, was) {
			if was != nil {
				_, _ = fmt.Fprintf(os.Stdout, "moved: %v\n", moved(was, now))
			}
			was, since = now, time.Now()
		}
		if left := steadyFor - time.Since(since); left > 0 {
			return fmt.Errorf("%s of calm are missing", left.Round(time.Second))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return since
}

// applyEvent in the API server's audit log.
type applyEvent struct {
	ObjectRef                struct{ Resource, Name string }
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
}

// applied: Crossplane continued to apply everything that is composed. Without that,
// the absence of writes shows nothing.
func applied(t *testing.T, e *story.Env, all []guardedObject, since time.Time) {
	t.Helper()
	log, err := os.ReadFile(e.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, `"verb":"patch"`) || !strings.Contains(line, "fieldManager=apiextensions.crossplane.io%2Fcomposed") {
			continue
		}
		event := applyEvent{}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("cannot read the audit log: %v", err)
		}
		if event.RequestReceivedTimestamp.After(since) && event.ResponseStatus.Code == http.StatusOK {
			count[event.ObjectRef.Resource+"/"+event.ObjectRef.Name]++
		}
	}
	for _, o := range all {
		name := resourceOf[o.GroupVersionKind().GroupKind().String()].Resource + "/" + o.GetName()
		if n := count[name]; !o.composite && n < minApplies {
			t.Errorf("%s: %s was applied %d times since %s, want %d at least: %v", o.by, name, n, since.Format(time.TimeOnly), minApplies, count)
		}
	}
}

// neverOpened: Crossplane's circuit breaker stayed closed from the beginning until now.
func neverOpened(ctx context.Context, t *testing.T, e *story.Env) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.CrossplaneMetrics(), nil)
	if err != nil {
		t.Fatal(err)
	}
	rsp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer rsp.Body.Close() //nolint:errcheck // It was read.
	raw, err := io.ReadAll(rsp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"xdatabases", "xloners"} {
		if !strings.Contains(string(raw), `circuit_breaker_events_total{controller="composite/`+kind) {
			t.Errorf("Crossplane's metrics count no events of %s:\n%s", kind, raw)
		}
	}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "circuit_breaker_opens_total") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
			t.Errorf("Crossplane's circuit breaker opened: %s", line)
		}
	}
}

func moved(was, now map[string]string) (out []string) {
	for k, v := range now {
		if was[k] != v {
			out = append(out, k)
		}
	}
	return out
}

// guardedObject is a composite, or one of what it is composed of.
type guardedObject struct {
	*unstructured.Unstructured
	by        string
	composite bool
}

// everything that is guarded.
func everything(ctx context.Context, client dynamic.Interface) ([]guardedObject, error) {
	var out []guardedObject
	for _, g := range guards {
		xr, err := client.Resource(g.resource).Namespace(g.namespace).Get(ctx, g.by, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		all, err := composed(ctx, client, xr)
		if err != nil {
			return nil, err
		}
		out = append(out, guardedObject{xr, g.by, true})
		for _, o := range all {
			out = append(out, guardedObject{o, g.by, false})
		}
	}
	return out, nil
}
