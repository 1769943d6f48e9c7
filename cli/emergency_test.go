package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestEmergency: what would be reverted and released comes first, then the commands, also for the function, which may be all that is
// installed (KR-12-15).
func TestEmergency(t *testing.T) {
	object := func(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}
	}
	step := func(mode, gate string) map[string]any {
		return map[string]any{"step": "kausality", "input": map[string]any{"apiVersion": "kausality.fn.crossplane.io/v1alpha1", "kind": "Input", "mode": mode,
			"gate": map[string]any{"managementPolicies": gate}}}
	}
	other := map[string]any{"step": "compose", "input": map[string]any{"apiVersion": "pt.fn.crossplane.io/v1beta1", "mode": "enforce"}}
	follows := step("enforce", "Webhook")
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{policyResource: "KausalityList", compositionResource: "CompositionList"},
		object("kausality.io/v1alpha1", "Kausality", "shop", map[string]any{"mode": "enforce"}),
		object("kausality.io/v1alpha1", "Kausality", "quiet", map[string]any{"suspend": true}),
		object("apiextensions.crossplane.io/v1", "Composition", "held", map[string]any{"pipeline": []any{other, step("enforce", "Managed")}}),
		object("apiextensions.crossplane.io/v1", "Composition", "follows", map[string]any{"pipeline": []any{follows}}),
		object("apiextensions.crossplane.io/v1", "Composition", "logged", map[string]any{"pipeline": []any{step("log", "Webhook")}}))
	e := &Emergency{}
	require.NoError(t, each(t.Context(), client, policyResource, e.policy))
	require.NoError(t, each(t.Context(), client, compositionResource, e.composition))
	assert.ElementsMatch(t, []EmergencyPolicy{
		{Name: "shop", Mode: "enforce", Command: `kubectl patch kausality shop --type=merge -p '{"spec":{"suspend":true}}'`},
		{Name: "quiet", Suspended: true, Command: `kubectl patch kausality quiet --type=merge -p '{"spec":{"suspend":false}}'`},
	}, e.Policies)
	assert.ElementsMatch(t, []EmergencyStep{{Composition: "follows", Step: "kausality", FollowsPolicies: true,
		Command: `kubectl patch composition follows --type=json -p '[{"op":"replace","path":"/spec/pipeline/0/input/mode","value":"log"}]'`}, {
		Composition: "held", Step: "kausality", Gate: true, FollowsPolicies: true,
		Command: `kubectl patch composition held --type=json -p '[{"op":"replace","path":"/spec/pipeline/1/input/mode","value":"log"}]'`}}, e.Steps)

	child := v1alpha1.ObjectReference{Kind: "Database", Namespace: "default", Name: "orders"}
	e.add([]v1alpha1.Drift{
		{ObjectMeta: metav1.ObjectMeta{Name: "e1"}, Spec: v1alpha1.DriftSpec{Relation: v1alpha1.RelationExternal, Child: child}},
		{ObjectMeta: metav1.ObjectMeta{Name: "e2"}, Spec: v1alpha1.DriftSpec{Relation: v1alpha1.RelationExternal, Operation: "DELETE", Child: child}},
		{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: v1alpha1.DriftSpec{Relation: v1alpha1.RelationControllerChild, Operation: "UPDATE", Child: child}},
	})
	assert.Len(t, e.Reverted, 1)
	assert.Len(t, e.Released, 2)
	e.Policies = e.Policies[:1]
	out := &bytes.Buffer{}
	require.NoError(t, e.print(out, view{}))
	text := out.String()
	for _, want := range []string{"external systems: 1 change\n  e1", "refused or held: 2 changes\n  e2", "keep gates closed:", "/spec/pipeline/1/input/mode"} {
		at := bytes.Index([]byte(text), []byte(want))
		require.GreaterOrEqual(t, at, 0, "%s: %s", want, text)
		text = text[at:]
	}
	out.Reset()
	require.NoError(t, (&Emergency{}).print(out, view{}))
	assert.Contains(t, out.String(), "There is no Kausality policy")
}
