package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/rights"
	"github.com/kausality-io/function-kausality/test/undecided"
)

var (
	allowancePolicies        = v1alpha1.GroupVersion.WithResource("allowancepolicies")
	upgradeAllowances        = v1alpha1.GroupVersion.WithResource("upgradeallowances")
	clusterApprovals         = v1alpha1.GroupVersion.WithResource("clusterapprovalpolicies")
	validatingConfigurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
)

// policy of a spec in YAML.
func policy(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(spec), &content))
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kausality.io/v1alpha1", "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": content}}
	raw, err := json.Marshal(o.Object) // numbers as an API client has them
	require.NoError(t, err)
	require.NoError(t, o.UnmarshalJSON(raw))
	return o
}

// write a policy, and remove it with the test: it applies to the whole cluster.
func write(t *testing.T, r schema.GroupVersionResource, o *unstructured.Unstructured) {
	t.Helper()
	c := the.as(t, hans).Resource(r)
	_, err := c.Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) })
}

// inForce waits until the leader of a fleet compiled a policy.
func inForce(t *testing.T, r schema.GroupVersionResource, name string) {
	t.Helper()
	wait.For(t, name+" to be compiled", wait.Patience, func(ctx context.Context) error {
		o, err := the.as(t, hans).Resource(r).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if m := c.(map[string]any); m["type"] == "Compiled" && m["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("status %v", o.Object["status"])
	})
}

// TestPolicyCRDs: the API server itself refuses what the schema rules out.
func TestPolicyCRDs(t *testing.T) {
	t.Parallel()
	c := the.as(t, hans)
	for _, tc := range []struct {
		reason, kind, spec, want string
		resource                 schema.GroupVersionResource
	}{
		{reason: "both forms", kind: "AllowancePolicy",
			spec: `{target: {kind: A}, match: {kind: A, fields: [spec]}, allow: [{kind: B, relation: Child, mutations: [spec]}]}`,
			want: "give either target (with rules) or match (with allow)", resource: allowancePolicies},
		{reason: "neither form", kind: "AllowancePolicy", spec: `{subjects: [{kind: User, name: a}]}`,
			want: "give either target (with rules) or match (with allow)", resource: allowancePolicies},
		{reason: "rules with match", kind: "AllowancePolicy",
			spec: `{match: {kind: A, fields: [spec]}, allow: [{kind: B, relation: Child, mutations: [spec]}], rules: []}`,
			want: "rules, initializing and deleting go with target", resource: allowancePolicies},
		{reason: "match without allow", kind: "AllowancePolicy", spec: `{match: {kind: A, fields: [spec]}}`,
			want: "match needs allow", resource: allowancePolicies},
		{reason: "allow with target", kind: "AllowancePolicy",
			spec: `{target: {kind: A}, allow: [{kind: B, relation: Child, mutations: [spec]}]}`, want: "spec.allow requires spec.match",
			resource: allowancePolicies},
		{reason: "unknown verb", kind: "AllowancePolicy",
			spec: `{target: {kind: A}, rules: [{trigger: spec, allow: [{relation: ControllerChild, verbs: [Patch]}]}]}`,
			want: "verbs of a ControllerChild are", resource: allowancePolicies},
		{reason: "unknown external verb", kind: "AllowancePolicy",
			spec: `{target: {kind: A}, rules: [{trigger: spec, allow: [{relation: External, verbs: [Patch]}]}]}`, want: "verbs of External are",
			resource: allowancePolicies},
		{reason: "mutations with External", kind: "AllowancePolicy",
			spec: `{target: {kind: A}, rules: [{trigger: spec, allow: [{relation: External, verbs: [Update], mutations: [{jsonPath: spec}]}]}]}`,
			want: "mutations go with relation ControllerChild only", resource: allowancePolicies},
		{reason: "externalTarget with a child", kind: "AllowancePolicy",
			spec: `{target: {kind: A}, rules: [{trigger: spec, allow: [{relation: ControllerChild, verbs: [Update], externalTarget: {a: b}}]}]}`,
			want: "externalTarget goes with relation External only", resource: allowancePolicies},
		{reason: "a ServiceAccount without namespace", kind: "AllowancePolicy",
			spec: `{target: {kind: A}, subjects: [{kind: ServiceAccount, name: a}]}`, want: "a ServiceAccount needs a namespace",
			resource: allowancePolicies},
		{reason: "a window that ends before it begins", kind: "UpgradeAllowance",
			spec: `{serviceAccount: a, validFrom: "2026-01-02T00:00:00Z", validUntil: "2026-01-01T00:00:00Z", allow: [{kind: A, relation: Child, mutations: [spec]}]}`,
			want: "validUntil must be after validFrom", resource: upgradeAllowances},
		{reason: "a child without kind", kind: "UpgradeAllowance",
			spec: `{serviceAccount: a, allow: [{relation: Child, mutations: [spec]}]}`, want: "a Child needs its kind", resource: upgradeAllowances},
		{reason: "a match of nothing", kind: "ClusterApprovalPolicy", spec: `{rules: [{mode: always, match: {}}]}`,
			want: "give cel or regexp", resource: clusterApprovals},
		{reason: "no mode", kind: "ClusterApprovalPolicy", spec: `{rules: [{kind: ConfigMap}]}`,
			want: "rules[0].mode: Required value", resource: clusterApprovals},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := c.Resource(tc.resource).Create(t.Context(), policy(t, tc.kind, "bad", tc.spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if !kerrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestPoliciesDecide: allowances are granted, cover, and are consumed; a policy
// that does not compile is refused with its position; a once rule is used once.
func TestPoliciesDecide(t *testing.T) {
	t.Cleanup(func() { rights.Show(t, the.AuditLog()) }) // once its processes have ended
	t.Parallel()
	f := startFleet(t, "policies", options{replicas: 2})
	s := newFixture(t, f, "policies")
	s.settled("part", "part-1", "part-2", "part-3")
	group := f.name + groupSuffix

	t.Run("what does not compile is refused when it is written", func(t *testing.T) { refusesPolicies(t, f) })
	t.Run("a once rule is used once", func(t *testing.T) { usesOnce(t, s, group) })
	t.Run("of a namespace", func(t *testing.T) { usesOwn(t, s, group) })
	t.Run("allowances", func(t *testing.T) { grants(t, s, group) })
}

func refusesPolicies(t *testing.T, f *fleet) {
	c := the.as(t, hans)
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/webhooks/0/clientConfig/url","value":%q}]`, f.replicas[0].url+"/policies")
	_, err := c.Resource(validatingConfigurations).Patch(t.Context(), "kausality-policies", types.JSONPatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	bad := policy(t, "AllowancePolicy", "bad-expression", `{target: {kind: A}, rules: [{trigger: spec.size, conditions: ["object.spec. > 1"], allow: []}]}`)
	wait.For(t, "the API server to call the webhook for policies", wait.Patience, func(ctx context.Context) error {
		_, err := c.Resource(allowancePolicies).Create(ctx, bad, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !kerrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.rules[0].conditions[0]: expression "object.spec. > 1": line 1, column 14`) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
}

func usesOnce(t *testing.T, s *fixture, group string) {
	write(t, clusterApprovals, policy(t, "ClusterApprovalPolicy", "once-"+s.ns, `
subjects: [{kind: User, name: `+controller+`}]
rules: [{apiVersion: `+group+`/*, kind: Part, namespace: `+s.ns+`, name: "part-?", match: {regexp: '\{"spec":\{"count":7\}\}'}, mode: once}]`))
	inForce(t, clusterApprovals, "once-"+s.ns)
	mustRefuse(t, s.count(s.ctrl, "part", 7), "Drift")   // another name
	mustRefuse(t, s.count(s.ctrl, "part-1", 8), "Drift") // another change
	require.NoError(t, s.count(s.ctrl, "part-1", 7, metav1.DryRunAll))
	var passed outcome
	wait.Often(t, "one of three to pass", wait.Patience, func() error {
		passed = together(3, func(i int) error { return s.count(s.ctrl, fmt.Sprintf("part-%d", i+1), 7) })
		if passed.n == 0 {
			return fmt.Errorf("none passed: %v", passed.refusals)
		}
		return nil
	})
	if passed.n != 1 {
		t.Errorf("%d of 3 passed by one once rule", passed.n)
	}
	o, err := the.as(t, hans).Resource(clusterApprovals).Get(t.Context(), "once-"+s.ns, metav1.GetOptions{})
	require.NoError(t, err)
	if claims, _, _ := unstructured.NestedSlice(o.Object, "status", "claims"); len(claims) != 1 {
		t.Errorf("claims %v", claims)
	}
}

// usesOwn uses a once rule of an ApprovalPolicy, in the Namespace of what it is about.
func usesOwn(t *testing.T, s *fixture, group string) {
	own := policy(t, "ApprovalPolicy", "own", `
subjects: [{kind: User, name: `+controller+`}]
rules: [{apiVersion: `+group+`/*, kind: Part, name: part, match: {regexp: '\{"spec":\{"count":9\}\}'}, mode: once}]`)
	approvals := the.as(t, hans).Resource(v1alpha1.GroupVersion.WithResource("approvalpolicies")).Namespace(s.ns)
	_, err := approvals.Create(t.Context(), own, metav1.CreateOptions{})
	require.NoError(t, err)
	wait.For(t, "the change to pass", wait.Patience, func(context.Context) error { return s.count(s.ctrl, "part", 9) })
	require.NoError(t, approvals.Delete(t.Context(), "own", metav1.DeleteOptions{}))
}

func grants(t *testing.T, s *fixture, group string) {
	write(t, allowancePolicies, policy(t, "AllowancePolicy", "allow-"+s.ns, `
target: {apiGroup: `+group+`, apiVersion: v1, kind: App}
subjects: [{kind: User, name: `+hans+`, mayInitiate: true}]
rules:
- trigger: spec.size
  conditions: ["object.spec.size > oldObject.spec.size", "'system:masters' in request.groups"]
  capture: ["metadata.annotations[jira]"]
  allow:
  - {target: {apiGroup: `+group+`, apiVersion: v1, kind: Part}, relation: ControllerChild, verbs: [Update],
     mutations: [{jsonPath: spec.count, verbs: [Mutate]}]}`))
	inForce(t, allowancePolicies, "allow-"+s.ns)
	s.annotate(map[string]any{"jira": "DB-1"})
	size := 10
	wait.For(t, "the change to be granted an allowance by both replicas", wait.Patience, func(context.Context) error {
		for range 4 {
			size++
			s.intent(size)
			if !strings.Contains(s.get().GetAnnotations()[v1alpha1.AnnotationKeyAllowances], `"attestations":{"metadata.annotations[jira]":"DB-1"}`) {
				return fmt.Errorf("allowances %q", s.get().GetAnnotations()[v1alpha1.AnnotationKeyAllowances])
			}
		}
		return nil
	})
	if got := strings.Count(s.get().GetAnnotations()[v1alpha1.AnnotationKeyAllowances], "initiator"); got != 1 {
		t.Errorf("%d entries that permit the same", got)
	}
	require.NoError(t, s.count(s.ctrl, "part", 1))
	_, err := s.of(s.ctrl).Patch(t.Context(), "part", types.MergePatchType, []byte(`{"spec":{"poison":false}}`), metav1.PatchOptions{})
	mustRefuse(t, err, "AllowanceMissing")
	if !strings.Contains(err.Error(), "covers spec.poison") {
		t.Errorf("it does not name the field: %v", err)
	}
	mustRefuse(t, s.of(s.ctrl).Delete(t.Context(), "part", metav1.DeleteOptions{}), "AllowanceMissing")

	s.observe()
	s.awaitLatch()
	mustRefuse(t, s.count(s.ctrl, "part", 2), "Drift") // consumed
	s.intent(1)                                        // smaller: grants nothing, and prunes
	if got := s.get().GetAnnotations()[v1alpha1.AnnotationKeyAllowances]; got != "" {
		t.Errorf("consumed allowances are not pruned: %s", got)
	}
	mustRefuse(t, s.count(s.ctrl, "part", 2), "AllowanceMissing")
}

// TestUpgradesDistinguishPods: two pods of one ServiceAccount run different images;
// each upgrades a child once, known by the token that is bound to it.
func TestUpgradesDistinguishPods(t *testing.T) {
	t.Cleanup(func() { rights.Show(t, the.AuditLog()) }) // once its processes have ended
	t.Parallel()
	f := startFleet(t, "upgrades", options{replicas: 1})
	home := f.namespace("upgrades-home", false)
	v1, v2 := podClient(t, home, "v1"), podClient(t, home, "v2")
	s := newFixture(t, f, "upgrades")
	s.ctrl = v1
	s.settled("part")
	mustRefuse(t, s.count(v1, "part", 1), "Drift")
	write(t, upgradeAllowances, policy(t, "UpgradeAllowance", "upgrade-"+s.ns, `
serviceAccount: system:serviceaccount:`+home+`:operator
images: ["example.invalid/operator:v*"]
allow: [{apiGroup: `+f.name+groupSuffix+`, kind: Part, relation: Child, mutations: [spec.count]}]`))
	inForce(t, upgradeAllowances, "upgrade-"+s.ns)
	mustRefuse(t, s.count(v1, "part", 1), "Drift") // its build was recorded before
	require.NoError(t, s.count(v2, "part", 2))     // a new build
	mustRefuse(t, s.count(v2, "part", 3), "Drift")
	mustRefuse(t, s.count(v1, "part", 3), "Drift") // the old one does not undo it
	o, err := s.of(s.hans).Get(t.Context(), "part", metav1.GetOptions{})
	require.NoError(t, err)
	var last v1alpha1.LastUpgrade
	require.NoError(t, json.Unmarshal([]byte(o.GetAnnotations()[v1alpha1.AnnotationKeyLastUpgrade]), &last))
	if last.Name != "upgrade-"+s.ns || len(last.Fingerprints) != 2 || last.Fingerprints[1] != o.GetAnnotations()[v1alpha1.AnnotationKeyFingerprint] {
		t.Errorf("last upgrade %+v, annotations %v", last, o.GetAnnotations())
	}
}

// podClient has a token that is bound to a pod of ServiceAccount operator with an
// image of that version.
func podClient(t *testing.T, namespace, version string) dynamic.Interface {
	t.Helper()
	k, err := kubernetes.NewForConfig(the.ConfigAsMaster(hans))
	require.NoError(t, err)
	_, err = k.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}, metav1.CreateOptions{})
	if err != nil && !kerrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, err = k.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "operator"}}}, metav1.CreateOptions{})
	if err != nil && !kerrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	pod, err := k.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: version},
		Spec: corev1.PodSpec{ServiceAccountName: "operator", Containers: []corev1.Container{{Name: "c", Image: "example.invalid/operator:" +
			version}}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	token, err := k.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "operator",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	cfg := rest.AnonymousClientConfig(the.Config())
	cfg.BearerToken, cfg.WarningHandler, cfg.QPS, cfg.UserAgent = token.Status.Token, rest.NoWarnings{}, -1, "operator"
	cfg.Wrap(undecided.Transport)
	c, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	return c
}

// TestDocumentedDeployment plays the first example of docs/policies.md on the real
// controllers. It is alone while it runs: its policies are about every Deployment.
func TestDocumentedDeployment(t *testing.T) {
	raw, err := os.ReadFile("../../docs/policies.md")
	require.NoError(t, err)
	_, example, _ := strings.Cut(string(raw), "<!-- example: deployment -->\n```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	f := startFleet(t, "documented", options{replicas: 1, resources: workloads})
	c := newCluster(t, f, "documented")
	c.deployment("foo", 2)
	c.rolledOut("foo", 2)
	c.latched("foo")
	for _, o := range decoded(t, example) {
		write(t, allowancePolicies, o)
		inForce(t, allowancePolicies, o.GetName())
	}

	require.NoError(t, c.patch("foo", `{"metadata":{"annotations":{"jira":"INFRA-23232"}}}`))
	seen, err := c.hans.AppsV1().ReplicaSets(c.ns).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer seen.Stop()
	require.NoError(t, c.patch("foo", `{"spec":{"replicas":1}}`))
	c.rolledOut("foo", 1)
	entries := scaled(t, seen, 1).Annotations[v1alpha1.AnnotationKeyAllowances]
	_, running := c.replicaSets("foo")
	for _, want := range []string{`"kind":"Pod"`, `"initiator":"` + hans + `"`,
		`"field":"spec.replicas","attestations":{"metadata.annotations[jira]":"INFRA-23232"}`, `{"kind":"ReplicaSet","name":"` + running[0].Name + `"`} {
		if !strings.Contains(entries, want) {
			t.Errorf("allowances of the ReplicaSet lack %s: %s; now it has %v", want, entries, running[0].Annotations)
		}
	}
	c.latched("foo")
	mustRefuse(t, c.scaleRS(running[0], 2), "Drift")

	require.NoError(t, c.patch("foo", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2.invalid/c"}]}}}}`))
	c.rolledOut("foo", 1) // with the annotation, a new image is rolled out
	c.latched("foo")
	require.NoError(t, c.patch("foo", `{"metadata":{"annotations":{"jira":null}}}`))
	require.NoError(t, c.patch("foo", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v3.invalid/c"}]}}}}`))
	c.awaitDrift("foo", "ReplicaSet", "CREATE")
	if all, _ := c.replicaSets("foo"); len(all) != 2 {
		t.Errorf("%d ReplicaSets, want 2", len(all))
	}
	t.Run("Down", func(t *testing.T) { allowedDown(t, f) })
}

// scaled is the first version of a ReplicaSet with that many replicas.
func scaled(t *testing.T, seen watch.Interface, n int32) *appsv1.ReplicaSet {
	t.Helper()
	for {
		e := wait.Receive(t, fmt.Sprintf("a ReplicaSet to be scaled to %d", n), 20*time.Second, seen.ResultChan())
		if rs, ok := e.Object.(*appsv1.ReplicaSet); ok && *rs.Spec.Replicas == n {
			return rs
		}
	}
}

func decoded(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	out, err := controlplane.Decode([]byte(text))
	require.NoError(t, err)
	return out
}
