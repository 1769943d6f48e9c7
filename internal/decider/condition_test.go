package decider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/internal/decider/builds"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	return o
}

// crossplaneCluster with revisions of a Composition: with our function, by its input, its name or its package; with others; with one
// that is not installed.
func crossplaneCluster(t *testing.T) *fake.FakeDynamicClient {
	t.Helper()
	revision := func(name, steps string) runtime.Object {
		return parsed(t, `{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: `+name+`}, spec: {pipeline: [`+steps+`]}}`)
	}
	function := func(name, image string) runtime.Object {
		return parsed(t, `{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision, metadata: {name: `+name+`-1, labels: {pkg.crossplane.io/package: `+
			name+`}}, spec: {desiredState: Active, image: "`+image+`"}}`)
	}
	const templating, ready = `{functionRef: {name: templating}, input: {apiVersion: gotemplating.fn.crossplane.io/v1beta1}}, `, `{functionRef: {name: ready}}`
	kinds := map[schema.GroupVersionResource]string{
		{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositionrevisions"}: "CompositionRevisionList",
		{Group: "pkg.crossplane.io", Version: "v1", Resource: "functionrevisions"}:              "FunctionRevisionList",
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds,
		revision("input", templating+`{functionRef: {name: guard}, input: {apiVersion: kausality.fn.crossplane.io/v1alpha1}}, `+ready),
		revision("name", templating+`{functionRef: {name: function-kausality}}, `+ready),
		revision("package", templating+`{functionRef: {name: guard}}, `+ready),
		revision("without", templating+ready), revision("foreign", templating+`{functionRef: {name: missing}}, `+ready),
		function("guard", "registry.example.org/kausality-io/function-kausality:v1"), function("function-kausality", "mirror.example.org/x:v1"),
		function("templating", "xpkg.example.org/templating:v1"), function("ready", "xpkg.example.org/auto-ready:v1"))
}

// TestDropCondition: the condition of the function goes with its step, in the next write of the status, and is kept wherever the step may
// still be in the pipeline (KR-10-12).
func TestDropCondition(t *testing.T) {
	const held = `{type: Kausality, status: "False", reason: Held, message: "resource \"db\": held", lastTransitionTime: "2026-01-01T00:00:00Z"}`
	xr := func(revision, conditions string) *unstructured.Unstructured {
		return parsed(t, `{apiVersion: example.org/v1, kind: XThing, metadata: {name: thing}, spec: {crossplane: {compositionRevisionRef: {name: `+
			revision+`}}}, status: {conditions: [{type: Synced, status: "True"}`+conditions+`]}}`)
	}
	const none, drop = -1, 1
	cases := map[string]struct {
		reason   string
		old, new *unstructured.Unstructured
		want     int
	}{
		"Gone":    {reason: "no step is ours", old: xr("input", ", "+held), new: xr("without", ", "+held), want: drop},
		"Input":   {reason: "a step has our input", old: xr("input", ", "+held), new: xr("input", ", "+held), want: none},
		"Name":    {reason: "or our name", old: xr("name", ", "+held), new: xr("name", ", "+held), want: none},
		"Package": {reason: "or our package", old: xr("package", ", "+held), new: xr("package", ", "+held), want: none},
		"Foreign": {reason: "or may be ours", old: xr("foreign", ", "+held), new: xr("foreign", ", "+held), want: none},
		"Deleted": {reason: "the revision is gone", old: xr("gone", ", "+held), new: xr("gone", ", "+held), want: none},
		"None":    {reason: "there is no condition", old: xr("without", ""), new: xr("without", ""), want: none},
		"Composing": {reason: "no revision is chosen yet", old: parsed(t, `{kind: X, status: {conditions: [`+held+`]}}`),
			new: parsed(t, `{kind: X, status: {conditions: [`+held+`]}}`), want: none},
		"Malformed": {reason: "not our status", old: parsed(t, `{kind: X, status: {conditions: x}}`),
			new: parsed(t, `{kind: X, status: {conditions: [x]}}`), want: none},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := &Decider{Builds: builds.New(crossplaneCluster(t))}
			before := tc.new.DeepCopy()
			for range 2 {
				assert.Equal(t, tc.want, h.dropCondition(t.Context(), &admission.Request{Object: tc.new, OldObject: tc.old}), tc.reason)
			}
			assert.Equal(t, before, tc.new, "the input is not modified")
		})
	}
	t.Run("ComesBack", func(t *testing.T) {
		h := &Decider{Builds: builds.New(crossplaneCluster(t))}
		with, without := xr("without", ", "+held), xr("without", "")
		require.Equal(t, drop, h.dropCondition(t.Context(), &admission.Request{Object: with, OldObject: with}))
		assert.Equal(t, none, h.dropCondition(t.Context(), &admission.Request{Object: with, OldObject: without}), "it was returned: our function has another name")
		assert.Equal(t, none, h.dropCondition(t.Context(), &admission.Request{Object: with, OldObject: with}), "no loop of writes")
	})
	t.Run("ReadOnce", func(t *testing.T) {
		c := crossplaneCluster(t)
		h := &Decider{Builds: builds.New(c)}
		for range 5 {
			for _, revision := range []string{"input", "without", "foreign"} {
				h.dropCondition(t.Context(), &admission.Request{Object: xr(revision, ", "+held), OldObject: xr(revision, ", "+held)})
			}
		}
		assert.Len(t, c.Actions(), 4, "each revision once, and the functions once")
	})
}
