package policycontroller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// TestGraphs: a policy shows whether graphs of kro are guarded together with what they define, and by a release that is known (KR-18-07).
func TestGraphs(t *testing.T) {
	policy := func(name string, resources ...string) *v1alpha1.Kausality {
		k := &v1alpha1.Kausality{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.KausalitySpec{Mode: v1alpha1.ModeEnforce}}
		for _, r := range resources {
			gr := schema.ParseGroupResource(r)
			k.Spec.Resources = append(k.Spec.Resources, v1alpha1.GuardedResources{APIGroups: []string{gr.Group}, Resources: []string{gr.Resource}})
		}
		return k
	}
	const graphs, shops, farms = "resourcegraphdefinitions.kro.run", "shops.kro.run", "farms.kro.run"
	kind := func(resource, version string) graphKind {
		return graphKind{GroupResource: schema.ParseGroupResource(resource), Graph: "g", Version: version}
	}
	for name, tc := range map[string]struct {
		reason   string
		policies []*v1alpha1.Kausality // the condition is that of the first one
		kinds    []graphKind
		want     string
		message  string
	}{
		"Guarded": {reason: "both", policies: []*v1alpha1.Kausality{policy("p", graphs, shops)}, kinds: []graphKind{kind(shops, "v0.9.3")}, want: "Guarded"},
		"Together": {reason: "two policies do", policies: []*v1alpha1.Kausality{policy("p", graphs), policy("q", shops)},
			kinds: []graphKind{kind(shops, "v0.9.4")}, want: "Guarded"},
		"Group": {reason: "all kinds of the group", policies: []*v1alpha1.Kausality{policy("p", "*.kro.run")}, kinds: []graphKind{kind(shops, "v0.9.3")},
			want: "Guarded"},
		"Kind": {reason: "a graph whose kind is not guarded", policies: []*v1alpha1.Kausality{policy("p", graphs, shops)},
			kinds: []graphKind{kind(farms, "v0.9.3"), kind(shops, "v0.9.3")}, want: "NotGuarded", message: "edits of graphs are not held on farms.kro.run:"},
		"Graph": {reason: "an unguarded graph", policies: []*v1alpha1.Kausality{policy("p", shops)}, kinds: []graphKind{kind(shops, "v0.9.3")},
			want: "NotGuarded", message: "who edits the graphs of shops.kro.run is unknown"},
		"Older": {reason: "an older kro", policies: []*v1alpha1.Kausality{policy("p", graphs, shops)}, kinds: []graphKind{kind(shops, "v0.8.1")},
			want: "OtherRelease", message: "shops.kro.run (v0.8.1)"},
		"Newer": {reason: "a newer kro", policies: []*v1alpha1.Kausality{policy("p", graphs, shops)}, kinds: []graphKind{kind(shops, "v0.10.0")},
			want: "OtherRelease", message: "shops.kro.run (v0.10.0)"},
		"Many": {reason: "not all are named", policies: []*v1alpha1.Kausality{policy("p", graphs)}, kinds: []graphKind{kind("a.kro.run", ""), kind("b.kro.run", ""),
			kind("c.kro.run", ""), kind("d.kro.run", ""), kind("e.kro.run", ""), kind("f.kro.run", "")}, want: "NotGuarded", message: "e.kro.run and 1 more:"},
		"NoKro":     {reason: "there are no graphs", policies: []*v1alpha1.Kausality{policy("p", graphs, shops)}},
		"OtherOnly": {reason: "nor by a policy of others", policies: []*v1alpha1.Kausality{policy("p", "configmaps")}, kinds: []graphKind{kind(shops, "v0.9.3")}},
	} {
		t.Run(name, func(t *testing.T) {
			set, errs := settings.Compile(tc.policies)
			assert.Empty(t, errs)
			got, is := graphsOf("p", set, tc.kinds)
			if assert.Equal(t, tc.want != "", is, tc.reason); !is {
				return
			}
			assert.Equal(t, tc.want, got.Reason, tc.reason)
			assert.Equal(t, tc.want == "Guarded", got.Status == metav1.ConditionTrue)
			assert.Contains(t, got.Message, tc.message)
		})
	}
}

// TestReportGraphs: the condition is of the CRDs as they are, and goes with them.
func TestReportGraphs(t *testing.T) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	crd.SetName("shops.kro.run")
	crd.SetLabels(map[string]string{kinds.LabelGraphOwned: "true", kinds.LabelGraphVersion: "v0.9.3", "kro.run/resource-graph-definition-name": "shop"})
	part := crd.DeepCopy() // a graph has it as a resource
	part.SetName("farms.kro.run")
	part.SetLabels(map[string]string{kinds.LabelGraphOwned: "true", "kro.run/resource-graph-definition-name": "x", "kro.run/node-id": "crd"})
	k := shopPolicy()
	k.Spec.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{"kro.run"}, Resources: []string{"resourcegraphdefinitions"}}}
	h := newHarness(t, nil, policyCRD(), crd, part, k)
	condition := func() *metav1.Condition {
		h.mustRun(t)
		is := &v1alpha1.Kausality{}
		require.NoError(t, h.Direct.Get(t.Context(), client.ObjectKeyFromObject(k), is))
		return meta.FindStatusCondition(is.Status.Conditions, v1alpha1.KausalityGraphs)
	}
	if c := condition(); assert.NotNil(t, c) {
		assert.Equal(t, v1alpha1.KausalityReasonNotGuarded, c.Reason)
		assert.Contains(t, c.Message, "on shops.kro.run: no policy")
	}
	require.NoError(t, h.Direct.Delete(t.Context(), crd))
	assert.Nil(t, condition())
}
