package derived

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/kro/graphs"
	"github.com/kausality-io/function-kausality/test/rights"
)

// garden is a graph with a field of each form: text, a map, one of another resource, one that the API server sets, a collection, a condition,
// a name, a constant, and a label, which is no desired state.
const garden = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: garden}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Garden
    spec:
      message: string
      size: integer | default=1
      labels: "map[string]string"
      beds: "[]string"
      gate: boolean | default=false
      sign: string | default="none"
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
      data:
        message: ${schema.spec.message}
        size: size-${string(schema.spec.size)}
        team: ${schema.metadata.?labels["team"].orValue("none")}
        tier: silver
  - id: service
    template:
      apiVersion: v1
      kind: Service
      metadata: {name: "${schema.metadata.name}"}
      spec:
        ports: [{port: 80}]
        selector: ${schema.spec.labels}
  - id: summary
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-summary"}
      data:
        address: ${service.spec.clusterIP}
        message: ${config.data.message}
  - id: beds
    forEach: [{bed: "${schema.spec.beds}"}]
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-${bed}"}
      data: {bed: "${bed}"}
  - id: gate
    includeWhen: ["${schema.spec.gate}"]
    template:
      apiVersion: v1
      kind: Service
      metadata: {name: "${schema.metadata.name}-gate"}
      spec:
        ports: [{port: 80}]
        selector: {app: gate}
  - id: sign
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-sign-${schema.spec.sign}"}
      data: {sign: "${schema.spec.sign}"}
`

func containsGeneration(message string, generation int64) bool {
	return strings.Contains(message, fmt.Sprintf("generation %d of", generation))
}

// apply the graph as anna, and wait until kro carries it out and its policy follows.
func apply(t *testing.T, text, reason string) *unstructured.Unstructured {
	t.Helper()
	require.NoError(t, the.Write(t.Context(), []byte(text)))
	g, err := as(t, anna).Resource(graphs.Graphs).Get(t.Context(), "garden", metav1.GetOptions{})
	require.NoError(t, err)
	p, took := derivedPolicy(t, "garden-policy", g.GetGeneration(), reason)
	if took > 5*time.Second {
		t.Errorf("the policy followed after %s", took)
	}
	return p
}

// plant a garden as hans.
func plant(t *testing.T, name string, spec map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "Garden", "spec": spec}}
	o.SetName(name)
	_, err := as(t, hans).Resource(gardens).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
}

// eventually something holds.
func eventually(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	wait.For(t, what, 30*time.Second, f)
}

// field waits until a ConfigMap, or a Service where the path is in spec, has a value.
func field(t *testing.T, want, name string, path ...string) {
	t.Helper()
	eventually(t, name+" to have "+want, func(ctx context.Context) error {
		r := graphs.ConfigMaps
		if path[0] == "spec" {
			r = graphs.Services
		}
		o, err := as(t, hans).Resource(r).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(o.Object, path...); got != want {
			return fmt.Errorf("%w: %q", errNotYet, got)
		}
		return nil
	})
}

// gone waits until there is no ConfigMap and no Service of a name.
func gone(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" to be gone", func(ctx context.Context) error {
		_, err := as(t, hans).Resource(graphs.ConfigMaps).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		_, err2 := as(t, hans).Resource(graphs.Services).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		if kerrors.IsNotFound(err) && kerrors.IsNotFound(err2) {
			return nil
		}
		return errNotYet
	})
}

// drifts of a garden's children that are open: what was refused.
func drifts(t *testing.T) []string {
	t.Helper()
	list, err := as(t, anna).Resource(graphs.Drifts).Namespace("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var out []string
	for i := range list.Items {
		message, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "message")
		child, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "child", "name")
		out = append(out, child+": "+message)
	}
	return out
}

// TestLife covers KR-18-09, KR-18-10 and KR-18-11: an instance goes through its whole life under the policies of its graph, and nothing is
// refused that follows from it.
func TestLife(t *testing.T) {
	p := apply(t, garden, "DerivedInPart")
	require.Len(t, p.GetOwnerReferences(), 1)
	plant(t, "rose", map[string]any{"message": "hello", "labels": map[string]any{"app": "a"}, "beds": []any{"a", "b"}})
	field(t, "b", "rose-b", "data", "bed")
	settled(t, "rose")

	for _, step := range []struct {
		patch string
		check func()
	}{
		{`{"spec":{"message":"bye"}}`, func() { field(t, "bye", "rose", "data", "message"); field(t, "bye", "rose-summary", "data", "message") }},
		{`{"spec":{"size":3}}`, func() { field(t, "size-3", "rose", "data", "size") }},
		{`{"spec":{"labels":{"app":null,"team":"x"}}}`, func() { field(t, "x", "rose", "spec", "selector", "team") }},
		{`{"spec":{"beds":["b","c"]}}`, func() { field(t, "c", "rose-c", "data", "bed"); gone(t, "rose-a") }},
		{`{"spec":{"gate":true}}`, func() { field(t, "gate", "rose-gate", "spec", "selector", "app") }},
		{`{"spec":{"gate":false}}`, func() { gone(t, "rose-gate") }},
		{`{"spec":{"sign":"open"}}`, func() { field(t, "open", "rose-sign-open", "data", "sign"); gone(t, "rose-sign-none") }},
		{`{"spec":{"message":"all","size":4,"beds":[],"gate":true,"sign":"closed"}}`, func() {
			field(t, "all", "rose-summary", "data", "message")
			field(t, "gate", "rose-gate", "spec", "selector", "app")
			gone(t, "rose-b")
			gone(t, "rose-sign-open")
		}},
	} {
		patch(t, hans, gardens, "default", "rose", step.patch)
		step.check()
		settled(t, "rose")
		require.Empty(t, drifts(t), step.patch)
	}

	t.Run("Initializing", func(t *testing.T) {
		plant(t, "lily", map[string]any{"message": "hello", "labels": map[string]any{"app": "a"}, "beds": []any{"a"}, "gate": true})
		patch(t, hans, gardens, "default", "lily", `{"spec":{"message":"bye","beds":["b"],"gate":false,"labels":{"app":null,"x":"y"}}}`)
		field(t, "bye", "lily", "data", "message")
		field(t, "b", "lily-b", "data", "bed")
		gone(t, "lily-a")
		gone(t, "lily-gate")
		settled(t, "lily")
		require.Empty(t, drifts(t))
	})
	t.Run("Recorded", recorded)
	t.Run("Unexplained", func(t *testing.T) {
		patch(t, hans, gardens, "default", "rose", `{"metadata":{"labels":{"team":"roses"}},"spec":{"message":"labelled"}}`)
		field(t, "none", "rose", "data", "team")
		const why = "no allowance on Garden default/rose covers data.team (AllowancePolicy garden-policy); " +
			`in ResourceGraphDefinition garden: resources[0].template.data.team: ${schema.metadata.?labels[\"…\"].orValue(\"…\")}`
		eventually(t, "the label to be held", func(context.Context) error {
			raw, err := os.ReadFile(the.AuditLog())
			if err == nil && !bytes.Contains(raw, []byte(why)) {
				err = errNotYet
			}
			return err
		})
	})
	t.Run("Deletion", func(t *testing.T) {
		for _, name := range []string{"rose", "lily"} {
			require.NoError(t, as(t, hans).Resource(gardens).Namespace("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
			gone(t, name)
			gone(t, name+"-summary")
		}
	})
	t.Run("Controller", func(t *testing.T) { controller(t) })
	rights.Show(t, the.AuditLog())
}

// kausality runs the program, which exits with a code.
func kausality(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), the.Bins[parts.Kausality], args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	require.Equal(t, code, cmd.ProcessState.ExitCode(), out.String())
	return out.String()
}

// together are the fields that one step changes at once: the log attributes what follows from any of them to all.
var together = []string{"spec.message", "spec.size", "spec.beds", "spec.gate", "spec.sign", "spec.labels"}

// recorded compares the policies of the graph with those of the recorded life. With the former, nothing of it would have been refused. What
// the latter have beside them is attributed to a field that was changed at the same time.
func recorded(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, text, 0o600))
		return file
	}
	raw, err := os.ReadFile(the.AuditLog())
	require.NoError(t, err)
	var lines [][]byte
	for _, l := range bytes.Split(raw, []byte("\n")) {
		if !bytes.Contains(l, []byte(`"resource":"pods"`)) { // of the chart, whose ReplicaSets are not recorded
			lines = append(lines, l)
		}
	}
	events := "--events=" + write("audit.log", bytes.Join(lines, []byte("\n")))
	fromGraph := kausality(t, 0, "kro", "derive", "-f", write("graph.yaml", []byte(garden)), "--service-account=kro-system/kro")
	out := kausality(t, 0, "policy", "test", write("policy.yaml", []byte(fromGraph)), events)
	assert.Contains(t, out, " 0 refused")
	assert.NotContains(t, out, " 0 expected or allowed")

	permits := permitted(t, fromGraph)
	paths := map[string]bool{}
	for p := range permits {
		paths[strings.SplitN(p, " -> ", 2)[1]] = true
	}
	for p := range permitted(t, kausality(t, 0, "policy", "derive", events)) {
		if permits[p] {
			continue
		}
		trigger, path, _ := strings.Cut(p, " -> ")
		t.Logf("in the log, not in the graph: %s", p)
		assert.True(t, paths[path], "the graph lets nothing change %s", path)
		assert.Contains(t, together, trigger)
	}
}

// permitted of policies, each as TRIGGER -> KIND VERB or KIND PATH, with the field of the instance that has the trigger.
func permitted(t *testing.T, policies string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	var p v1alpha1.AllowancePolicy
	require.NoError(t, yaml.Unmarshal([]byte(policies), &p))
	for _, r := range p.Spec.Rules {
		at := change.SplitPath(r.Trigger)
		trigger := change.Text(at[:min(len(at), 2)])
		for _, a := range r.Allow {
			for _, m := range a.Mutations {
				at := change.SplitPath(m.JSONPath)
				out[trigger+" -> "+a.Target.Kind+" "+change.Text(at[:min(len(at), 2)])] = true
			}
			for _, v := range a.Verbs {
				if v != "Update" {
					out[trigger+" -> "+a.Target.Kind+" "+v] = true
				}
			}
		}
	}
	return out
}

// controller keeps policies in step with graphs.
func controller(t *testing.T) {
	c := as(t, anna)
	t.Run("HandEdit", func(t *testing.T) {
		before, err := c.Resource(allowances).Get(t.Context(), "garden-policy", metav1.GetOptions{})
		require.NoError(t, err)
		patch(t, anna, allowances, "", "garden-policy", `{"spec":{"rules":[{"trigger":"spec","allow":[{"relation":"ControllerChild","verbs":["*"]}]}]}}`)
		eventually(t, "the edit to be put back", func(ctx context.Context) error {
			now, err := c.Resource(allowances).Get(ctx, "garden-policy", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !assert.ObjectsAreEqual(before.Object["spec"], now.Object["spec"]) {
				return errNotYet
			}
			list, err := c.Resource(events).Namespace("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range list.Items {
				if list.Items[i].Object["reason"] == "EditReverted" {
					return nil
				}
			}
			return errNotYet
		})
	})
	t.Run("Edit", func(t *testing.T) {
		p := apply(t, strings.Replace(garden, "tier: silver", "tier: ${schema.spec.sign}", 1), "DerivedInPart")
		raw, err := yaml.Marshal(p.Object)
		require.NoError(t, err)
		assert.Contains(t, string(raw), "jsonPath: data.tier")
	})
	t.Run("Invalid", func(t *testing.T) {
		patch(t, anna, graphs.Graphs, "", "garden", `{"spec":{"resources":[{"id":"config","template":{"apiVersion":"v1","kind":"ConfigMap",
			"metadata":{"name":"x"},"data":{"a":"${schema.spec.nothing}"}}}]}}`)
		g, err := c.Resource(graphs.Graphs).Get(t.Context(), "garden", metav1.GetOptions{})
		require.NoError(t, err)
		p, _ := derivedPolicy(t, "garden-policy", g.GetGeneration(), "InvalidGraph")
		raw, err := yaml.Marshal(p.Object["spec"])
		require.NoError(t, err)
		assert.Contains(t, string(raw), "jsonPath: data.tier", "the last rules stay")
	})
	t.Run("Two", func(t *testing.T) {
		_, err := c.Resource(graphs.Graphs).Create(t.Context(), decode(t, strings.Replace(garden, "name: garden}", "name: garden2}", 1)), metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, "the second graph to be reported", func(ctx context.Context) error {
			o, err := c.Resource(kausalities).Get(ctx, "graphs", metav1.GetOptions{})
			if err != nil {
				return err
			}
			raw, err := yaml.Marshal(o.Object["status"])
			if err == nil && !strings.Contains(string(raw), "garden2 (kro does not accept it: ") {
				err = fmt.Errorf("%w: %s", errNotYet, raw)
			}
			return err
		})
		_, err = c.Resource(allowances).Get(t.Context(), "garden2-policy", metav1.GetOptions{})
		assert.True(t, kerrors.IsNotFound(err), "no policy: %v", err)
		require.NoError(t, c.Resource(graphs.Graphs).Delete(t.Context(), "garden2", metav1.DeleteOptions{}))
	})
	t.Run("Delete", func(t *testing.T) {
		require.NoError(t, c.Resource(graphs.Graphs).Delete(t.Context(), "garden", metav1.DeleteOptions{}))
		eventually(t, "the policy to go with its graph", func(ctx context.Context) error {
			_, err := c.Resource(allowances).Get(ctx, "garden-policy", metav1.GetOptions{})
			if kerrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("%w: %w", errNotYet, err)
		})
	})
}

func decode(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	return o
}
