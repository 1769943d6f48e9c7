package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// workloadPolicies are a Deployment's in the full form, and its ReplicaSets' in
// the shorthand.
const workloadPolicies = `
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata:
  name: deployment-policy
spec:
  target:
    apiGroup: apps
    apiVersion: v1
    kind: Deployment

  subjects:
  - kind: Group
    name: platform-team
    mayInitiate: true
  - kind: ServiceAccount
    name: deployment-controller
    namespace: kube-system

  # What's allowed during initialization
  initializing:
    when: "!has(object.status.observedGeneration)"
    allow:
    - relation: ControllerChild
      verbs: [Create]
      mutations:
      - jsonPath: "*"
        verbs: [Insert, Mutate]

  deleting:
    allow:
    - relation: ControllerChild
      verbs: ["*"]

  rules:
  - trigger: "spec.replicas"
    capture:
    - "metadata.annotations[jira]"
    - "metadata.annotations[approved-by]"
    allow:
    - target:
        apiGroup: apps
        apiVersion: v1
        kind: ReplicaSet
      relation: ControllerChild
      verbs: [Update, Delete]
      mutations:
      - jsonPath: "spec.replicas"
        verbs: [Mutate]

  - trigger: "spec.template.spec.containers[*].image"
    conditions:
    - "object.metadata.labels['env'] != 'prod'"
    - "has(object.metadata.annotations['jira'])"
    capture:
    - "metadata.annotations[jira]"
    - "metadata.annotations[approved-by]"
    allow:
    - target:
        apiGroup: apps
        apiVersion: v1
        kind: ReplicaSet
      relation: ControllerChild
      verbs: [Update]
      mutations:
      - jsonPath: "spec.template.spec.containers[*]"
        verbs: [Insert, Delete, Mutate]
---
kind: AllowancePolicy
apiVersion: kausality.io/v1alpha1
metadata:
  name: replicaset-policy
spec:
  match:
    kind: ReplicaSet
    fields: ["spec.replicas"]
  subjects:
  - kind: ServiceAccount
    name: deployment-controller
    namespace: kube-system
  allow:
  - kind: Pod
    relation: Child
    mutations: [delete, create]
`

// allowedDown plays Deployment → ReplicaSet → Pod under workloadPolicies, with the
// real controllers: allowances appear on each level, with what they attest, and
// are consumed and pruned; what none covers stops where it should.
func allowedDown(t *testing.T, f *fleet) {
	all := the.as(t, hans).Resource(allowancePolicies)
	require.NoError(t, all.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})) // those of before
	for _, o := range decoded(t, workloadPolicies) {
		write(t, allowancePolicies, o)
		inForce(t, allowancePolicies, o.GetName())
	}
	c := newCluster(t, f, "documented-down")
	cfg := the.ConfigAsMaster(hans)
	cfg.Impersonate.Groups = append(cfg.Impersonate.Groups, "platform-team")
	var err error
	c.hans, err = kubernetes.NewForConfig(cfg)
	require.NoError(t, err)

	c.deployment("bar", 2) // creating it grants nothing, and takes nothing
	require.NoError(t, c.patch("bar", `{"metadata":{"labels":{"env":"dev"},"annotations":{"jira":"INFRA-23232","approved-by":"alice@example.com"}}}`))
	c.rolledOut("bar", 2)
	c.latched("bar")
	carries(t, c.patched("bar", `{}`), "")

	seen, err := c.hans.AppsV1().ReplicaSets(c.ns).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer seen.Stop()
	d := c.patched("bar", `{"spec":{"replicas":1}}`)
	origin := fmt.Sprintf(`{kind: Deployment, name: bar, generation: %d, field: spec.replicas, attestations: `+
		`{"metadata.annotations[jira]": INFRA-23232, "metadata.annotations[approved-by]": alice@example.com}}`, d.GetGeneration())
	carries(t, d, fmt.Sprintf("- {apiVersion: apps/v1, kind: ReplicaSet, relation: ControllerChild, verbs: [Update, Delete], mutations: "+
		"[{jsonPath: spec.replicas, verbs: [Mutate]}], generation: %d, initiator: %s, trace: [%s]}", d.GetGeneration(), hans, origin))
	rs := scaled(t, seen, 1)
	carries(t, untyped(t, rs), fmt.Sprintf("- {kind: Pod, relation: ControllerChild, verbs: [Delete, Create], generation: %d, initiator: "+
		"%s, trace: [%s, {kind: ReplicaSet, name: %s, generation: %d, field: spec.replicas}]}", rs.Generation, hans, origin, rs.Name, rs.Generation))
	c.rolledOut("bar", 1) // a Pod was deleted for it
	c.latched("bar")

	c.prunes("bar", rs.Name)
	c.stopsAtCreate("bar")
	c.replacesNoPod("bar")
}

// patched is a Deployment as a patch leaves it.
func (c *cluster) patched(name, body string) *unstructured.Unstructured {
	c.t.Helper()
	d, err := c.hans.AppsV1().Deployments(c.ns).Patch(c.t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	require.NoError(c.t, err)
	return untyped(c.t, d)
}

// carries asserts the allowances of an object, as YAML.
func carries(t *testing.T, o *unstructured.Unstructured, want string) {
	t.Helper()
	var wanted, have []v1alpha1.Allowance
	require.NoError(t, yaml.Unmarshal([]byte(want), &wanted))
	value := o.GetAnnotations()[v1alpha1.AnnotationKeyAllowances]
	if value != "" {
		require.NoError(t, json.Unmarshal([]byte(value), &have))
	}
	if !reflect.DeepEqual(wanted, have) {
		t.Errorf("%s carries\n%s, not\n%s", o.GetName(), value, want)
	}
}

// prunes: what is consumed covers nothing more, and goes with the next write to
// its carrier.
func (c *cluster) prunes(deployment, replicaSet string) {
	c.t.Helper()
	_, running := c.replicaSets(deployment)
	mustRefuse(c.t, c.scaleRS(running[0], 2), "Drift")
	carries(c.t, c.patched(deployment, `{"spec":{"revisionHistoryLimit":5}}`), "")
	seconds := 0
	wait.For(c.t, "the ReplicaSet's allowances to be pruned", wait.Patience, func(ctx context.Context) error {
		seconds++
		rs, err := c.hans.AppsV1().ReplicaSets(c.ns).Patch(ctx, replicaSet, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"minReadySeconds":%d}}`, seconds), metav1.PatchOptions{})
		if err == nil && rs.Annotations[v1alpha1.AnnotationKeyAllowances] != "" {
			err = fmt.Errorf("it carries %s", rs.Annotations[v1alpha1.AnnotationKeyAllowances])
		}
		return err
	})
}

// stopsAtCreate: a new image is granted an allowance with the index of its
// container, for changing ReplicaSets; the controller makes a new one, which
// nothing allows.
func (c *cluster) stopsAtCreate(deployment string) {
	c.t.Helper()
	d := c.patched(deployment, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2.invalid/c"}]}}}}`)
	carries(c.t, d, fmt.Sprintf(`- {apiVersion: apps/v1, kind: ReplicaSet, relation: ControllerChild, verbs: [Update],
  mutations: [{jsonPath: "spec.template.spec.containers[*]", verbs: [Insert, Delete, Mutate]}], generation: %d, initiator: %s,
  trace: [{kind: Deployment, name: %s, generation: %d, field: "spec.template.spec.containers[0].image",
    attestations: {"metadata.annotations[jira]": INFRA-23232, "metadata.annotations[approved-by]": alice@example.com}}]}`,
		d.GetGeneration(), hans, deployment, d.GetGeneration()))
	c.awaitDrift(deployment, "ReplicaSet", "CREATE")
	if all, _ := c.replicaSets(deployment); len(all) != 1 {
		c.t.Errorf("%d ReplicaSets, want 1", len(all))
	}
}

// replacesNoPod: under a policy, a Pod that is gone is not replaced without an
// allowance.
func (c *cluster) replacesNoPod(deployment string) {
	c.t.Helper()
	_, running := c.replicaSets(deployment)
	old := metav1.ListOptions{LabelSelector: "app=" + deployment}
	require.NoError(c.t, c.hans.CoreV1().Pods(c.ns).DeleteCollection(c.t.Context(), metav1.DeleteOptions{}, old))
	c.awaitDrift(running[0].Name, "Pod", "CREATE")
	pods, err := c.hans.CoreV1().Pods(c.ns).List(c.t.Context(), metav1.ListOptions{LabelSelector: "app=" + deployment})
	require.NoError(c.t, err)
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed {
			c.t.Errorf("Pod %s was created again", p.Name)
		}
	}
}

// awaitDrift about an operation on a kind of children of a parent.
func (c *cluster) awaitDrift(parent, kind, operation string) {
	c.t.Helper()
	wait.For(c.t, fmt.Sprintf("a Drift about %s of a %s of %s", operation, kind, parent), 30*time.Second, func(ctx context.Context) error {
		list, err := the.as(c.t, hans).Resource(drifts).Namespace(c.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			spec, _ := d.Object["spec"].(map[string]any)
			of, _ := spec["parent"].(map[string]any)
			child, _ := spec["child"].(map[string]any)
			if of["name"] == parent && child["kind"] == kind && spec["operation"] == operation {
				return nil
			}
		}
		return fmt.Errorf("%d Drifts, none of them that", len(list.Items))
	})
}
