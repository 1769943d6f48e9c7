package builds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// graphText is a graph of kro, and revisionText a revision of it, as kro v0.9.3 writes them (test/kro).
func graphText(metadata, tier string) string {
	return `{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: shop, ` + metadata + `},
  spec: {schema: {kind: Shop}, tier: ` + tier + `}}`
}

func revisionText(n, generation, uid, tier string) string {
	return `{apiVersion: internal.kro.run/v1alpha1, kind: GraphRevision, metadata: {name: shop-r0000` + n + `, uid: r` + n + `,
  ownerReferences: [{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, name: shop, uid: ` + uid + `, controller: true}]},
  spec: {revision: ` + n + `, snapshot: {name: shop, generation: ` + generation + `, spec: {schema: {kind: Shop}, tier: ` + tier + `}}}}`
}

// TestGraph: the newest revision of its graph is a part of the build that changes the children of an instance (KR-18-05).
func TestGraph(t *testing.T) {
	client := fakeClient()
	b := New(client)
	of := func(graph string, kind ...string) allowance.Build {
		p := &parent.State{}
		p.GroupVersionKind = schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: append(kind, "Shop")[0]}
		build, err := b.Of(t.Context(), subject.User{Name: "kro"}, p, graph)
		require.NoError(t, err)
		return build
	}
	assert.Empty(t, of("shop").Fingerprint, "no graph")
	create(t, client, graph, graphText("uid: u1, generation: 1", "silver"))
	assert.Empty(t, of("shop").Fingerprint, "no revision yet")
	create(t, client, graphRevision, revisionText("1", "1", "u1", "silver"))
	create(t, client, graphRevision, revisionText("9", "1", "u0", "silver")) // of a graph that is gone
	first := of("shop")
	assert.Equal(t, allowance.GraphRevision{Of: "shop", Name: "shop-r00001", Number: 1}, first.Graph)
	listed := lists(client)
	assert.Equal(t, first, of("shop"))
	assert.Equal(t, listed, lists(client), "the revisions are known while the graph is of the same generation")
	assert.Empty(t, of("").Fingerprint, "no instance of a graph")
	assert.Empty(t, of("shop", "Other").Fingerprint, "the graph does not define that kind")

	require.NoError(t, client.Resource(graph).Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	create(t, client, graph, graphText("uid: u1, generation: 2", "gold"))
	assert.Equal(t, first, of("shop"), "kro has not made a revision of the edit yet")
	create(t, client, graphRevision, revisionText("2", "2", "u1", "gold"))
	second := of("shop")
	assert.Equal(t, "ResourceGraphDefinition shop revision 2", second.Graph.String())
	assert.NotEqual(t, first.Fingerprint, second.Fingerprint)
}

// lists counts what was listed.
func lists(client *fake.FakeDynamicClient) (n int) {
	for _, a := range client.Actions() {
		if a.GetVerb() == "list" {
			n++
		}
	}
	return n
}

// TestGraphAuthor: who made a revision of a graph of kro (KR-18-05).
func TestGraphAuthor(t *testing.T) {
	hop := func(generation string) string {
		return `annotations: {kausality.io/trace: '[{"kind":"ResourceGraphDefinition","name":"shop","generation":` + generation + `,"user":"anna"}]'}`
	}
	for name, tc := range map[string]struct {
		reason string
		// metadata and tier of the graph; that of the revision, of generation 2, is gold. "" for no graph.
		metadata, tier string
		want           authorship.Author
	}{
		"Own": {reason: "the graph's own trace", metadata: "uid: u1, generation: 2, " + hop("2"), tier: "gold", want: authorship.Author{User: "anna"}},
		"Changed": {reason: "another content than the trace is about", metadata: "uid: u1, generation: 3, " + hop("2"), tier: "silver",
			want: authorship.Author{User: "anna", Copied: true}},
		"Next": {reason: "the trace is of a later edit", metadata: "uid: u1, generation: 3, " + hop("3"), tier: "silver"},
		"Unobserved": {reason: "a later edit was not observed", metadata: "uid: u1, generation: 2, " + hop("1") + ", " + written, tier: "gold",
			want: authorship.Author{Manager: "kubectl (Apply)"}},
		"Untraced": {reason: "no trace", metadata: "uid: u1, generation: 2, " + written, tier: "gold", want: authorship.Author{Manager: "kubectl (Apply)"}},
		"Other":    {reason: "a graph of the same name", metadata: "uid: u2, generation: 2, " + hop("2"), tier: "gold"},
		"Gone":     {reason: "no graph"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fakeClient()
			if tc.metadata != "" {
				create(t, client, graph, graphText(tc.metadata, tc.tier))
			}
			create(t, client, graphRevision, revisionText("2", "2", "u1", "gold"))
			b := New(client)
			authored(t, b, v1alpha1.HopCause{Kind: v1alpha1.CauseGraph, Name: "shop-r00002"}, tc.want, tc.reason)
			authored(t, b, v1alpha1.HopCause{Kind: v1alpha1.CauseGraph, Name: "shop-r00003"}, authorship.Author{}, "a revision that is gone")
		})
	}
}
