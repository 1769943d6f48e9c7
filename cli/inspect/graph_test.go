package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	graphPath    = "kro.run/v1alpha1/resourcegraphdefinitions/shop"
	instancePath = "kro.run/v1alpha1/namespaces/team/shops/db"
	memberPath   = "v1/namespaces/team/configmaps/db"
	partOf       = "applyset-Ff_MDGH9n74jV8DO-Y-gXOZL2NbpR_aIP0HZv_x1640-v1" // Shop team/db
)

// member of the ApplySet with an id, whose labels name the instance.
func member(name, applySet string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `, namespace: team, uid: ` + name + `, labels: {kro.run/instance-id: u-db,
  kro.run/instance-name: db, kro.run/instance-namespace: team, kro.run/instance-group: kro.run, kro.run/instance-version: v1alpha1,
  kro.run/instance-kind: Shop, applyset.kubernetes.io/part-of: ` + applySet + `}}, data: {tier: silver}}`
}

// guard the resources of API groups.
func (s *storedServer) guard(t *testing.T, groups string) {
	t.Helper()
	s.put(t, webhookPath, `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: kausality},
  webhooks: [{name: admission.kausality.io, failurePolicy: Fail, rules: [{apiGroups: [`+groups+`], resources: ["*"]}]}]}`)
}

// graphs adds a graph of kro, whose newest revision is by anna, and an instance of it that settled, with a child.
func graphs(t *testing.T) func(*storedServer) {
	t.Helper()
	return func(s *storedServer) {
		s.guard(t, `"", kro.run`)
		s.put(t, "apiextensions.k8s.io/v1/customresourcedefinitions/shops.kro.run", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: shops.kro.run, labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: shop}}, spec: {group: kro.run,
  scope: Namespaced, names: {kind: Shop, plural: shops}, versions: [{name: v1alpha1, served: true, storage: true}]}}`)
		s.put(t, graphPath, `{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: shop, uid: u-graph, generation: 2,
  annotations: {kausality.io/trace: '[{"kind":"ResourceGraphDefinition","name":"shop","generation":2,"user":"anna"}]'}}, spec: {schema: {kind: Shop}}}`)
		for name, of := range map[string]string{"shop-r00002": "u-graph", "shop-r00007": "u-gone"} {
			s.put(t, "internal.kro.run/v1alpha1/graphrevisions/"+name, `{apiVersion: internal.kro.run/v1alpha1, kind: GraphRevision,
  metadata: {name: `+name+`, uid: `+name+`, ownerReferences: [{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, name: shop, uid: `+of+`,
  controller: true}]}, spec: {revision: 2, snapshot: {name: shop, generation: 2, spec: {schema: {kind: Shop}}}}}`)
		}
		s.put(t, instancePath, `{apiVersion: kro.run/v1alpha1, kind: Shop, metadata: {name: db, namespace: team, uid: u-db, generation: 1,
  labels: {applyset.kubernetes.io/id: `+partOf+`}, annotations: {applyset.kubernetes.io/tooling: kro/v0.9.3,
  applyset.kubernetes.io/contains-group-kinds: "ConfigMap,Gone.example.org", kausality.io/settled-generation: "1", kausality.io/phase: initialized}},
  spec: {size: 1}}`)
		s.put(t, memberPath, member("db", partOf))
		s.put(t, "v1/namespaces/team/configmaps/forged", member("forged", "applyset-other"))
	}
}

// TestMembers: the children of an instance are those that its ApplySet contains and that name it in turn (KR-12-31, KR-18-01).
func TestMembers(t *testing.T) {
	i, s := inspectorOf(t, graphs(t))
	c, err := i.Chain(t.Context(), s.objects[instancePath])
	require.NoError(t, err)
	require.Len(t, c.Children, 1)
	assert.Equal(t, "db", c.Children[0].Object.Name)
	assert.NotNil(t, c.Children[0].Hop)

	s.annotate(instancePath, "applyset.kubernetes.io/tooling", "kubectl/v1.35.4")
	c, err = i.Chain(t.Context(), s.objects[instancePath])
	require.NoError(t, err)
	assert.Empty(t, c.Children, "the ApplySet of another tool")
	s.annotate(instancePath, "applyset.kubernetes.io/tooling", "kro/v0.9.3")

	s.forbidden = "v1/namespaces/team/configmaps"
	c, err = i.Chain(t.Context(), s.objects[instancePath])
	require.NoError(t, err)
	require.Len(t, c.Children, 1)
	assert.Equal(t, v1alpha1.ObjectReference{Kind: "ConfigMap", Namespace: "team", Name: "*"}, c.Children[0].Object)
	assert.Equal(t, "you may not list them", c.Children[0].Note)
}

// TestExplainInstance: the decision about a child names the revision of the graph and its author, as the webhook does, and so does the
// instance; where the user may not read graphs, the rest is known (KR-12-19, KR-18-05).
func TestExplainInstance(t *testing.T) {
	const revision = "(ResourceGraphDefinition shop revision 2, changed by anna)"
	for name, tc := range map[string]struct {
		reason, forbidden, unread string
		want                      *v1alpha1.HopCause
	}{
		"Known": {reason: "its newest revision, and not that of a graph that is gone",
			want: &v1alpha1.HopCause{Kind: v1alpha1.CauseGraph, Name: "shop-r00002", Author: "anna"}},
		"Forbidden": {reason: "the user may not read graphs", forbidden: graphPath, unread: "cannot read ResourceGraphDefinition shop"},
	} {
		t.Run(name, func(t *testing.T) {
			i, s := inspectorOf(t, graphs(t))
			s.forbidden = tc.forbidden
			e, err := i.Explain(t.Context(), s.objects[memberPath], nil)
			require.NoError(t, err)
			require.NotEmpty(t, e.Outcomes)
			assert.Contains(t, e.Outcomes[0].Why, "the spec of Shop team/db has not changed since it settled at generation 1", tc.reason)
			require.NotNil(t, e.Parent)
			assert.Equal(t, tc.want, e.Parent.GraphRevision, tc.reason)
			if tc.unread != "" {
				require.Len(t, e.Unread, 1)
				assert.Contains(t, e.Unread[0], tc.unread)
				assert.NotContains(t, e.Outcomes[0].Why, "revision")
				return
			}
			assert.Contains(t, e.Outcomes[0].Why, revision)
			assert.Empty(t, e.Unread)

			e, err = i.Explain(t.Context(), s.objects[instancePath], nil)
			require.NoError(t, err)
			assert.Equal(t, tc.want, e.Own.GraphRevision)
			assert.Nil(t, e.Graph)

			s.annotate(instancePath, v1alpha1.AnnotationKeySettledGeneration, "")
			e, err = i.Explain(t.Context(), s.objects[instancePath], nil)
			require.NoError(t, err)
			assert.NotNil(t, e.Own, "it is a parent before it settled")
		})
	}
}

// TestUnguardedInstance: an instance that is not guarded is no parent by the labels of its children (KR-18-01).
func TestUnguardedInstance(t *testing.T) {
	i, s := inspectorOf(t, func(s *storedServer) {
		graphs(t)(s)
		s.guard(t, `""`)
	})
	e, err := i.Explain(t.Context(), s.objects[memberPath], nil)
	require.NoError(t, err)
	assert.Nil(t, e.Parent)
	for _, o := range e.Outcomes {
		assert.NotEqual(t, AttemptController, o.Attempt, "it has no parent whose controller could change it")
	}
}

// TestByGraph: what revisions of a graph are a cause of, and not those of another one of its name.
func TestByGraph(t *testing.T) {
	i, s := inspectorOf(t, graphs(t))
	for id, revision := range map[string]string{"0000000000000001": "shop-r00002", "0000000000000002": "shop-r00007", "0000000000000003": "shop-r00001"} {
		s.put(t, "kausality.io/v1alpha1/namespaces/team/drifts/"+id, `{apiVersion: kausality.io/v1alpha1, kind: Drift, metadata: {name: "`+id+`",
  namespace: team, uid: "`+id+`"}, spec: {id: "`+id+`", causes: [{kind: GraphRevision, name: `+revision+`}]}, status: {phase: Detected}}`)
	}
	e, err := i.Explain(t.Context(), s.objects[graphPath], nil)
	require.NoError(t, err)
	require.NotNil(t, e.Graph)
	require.Len(t, e.Graph.Drifts, 1)
	assert.Equal(t, "0000000000000001", e.Graph.Drifts[0].Name)

	s.forbidden = "internal.kro.run/"
	e, err = i.Explain(t.Context(), s.objects[graphPath], nil)
	require.NoError(t, err)
	assert.Nil(t, e.Graph, "it is unknown, and not nothing")
	require.NotEmpty(t, e.Unread)
	assert.Contains(t, e.Unread[0], "cannot list the GraphRevisions of shop")
}
