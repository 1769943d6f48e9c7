package manifests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// guardEnforced for policies and Namespaces that enforce by annotation.
func guardEnforced(t *testing.T, enforced []string, policies ...*v1alpha1.Kausality) *Guarded {
	t.Helper()
	o := service()
	o.Enforced = enforced
	g, err := Guard(o, scopesOf(t, policies...), nil, Masked{})
	require.NoError(t, err)
	return g
}

// failing are the failure policies of the admission webhooks that are called for objects in a Namespace, with its labels; each is
// called once at most.
func failing(t *testing.T, g *Guarded, namespace string, of map[string]string) string {
	t.Helper()
	var out []string
	for i := range g.Configuration.Webhooks {
		w := &g.Configuration.Webhooks[i]
		if !strings.HasSuffix(w.Name, ".admission.kausality.io") {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
		require.NoError(t, err)
		all := labels.Set{corev1.LabelMetadataName: namespace}
		if s.Matches(labels.Merge(all, of)) {
			out = append(out, string(*w.FailurePolicy))
		}
	}
	return strings.Join(out, ",")
}

// TestEnforcedNamespaces: in a Namespace that enforces by its annotation the webhook fails closed, and in no other one; it is called
// once (KR-12-10).
func TestEnforcedNamespaces(t *testing.T) {
	logs := kausality("logs", func(s *v1alpha1.KausalitySpec) { s.Mode = v1alpha1.ModeLog })
	enforces := kausality("enforces", func(s *v1alpha1.KausalitySpec) { s.Mode = v1alpha1.ModeEnforce })
	overrides := kausality("overrides", func(s *v1alpha1.KausalitySpec) {
		s.Mode, s.Overrides = v1alpha1.ModeEnforce, []v1alpha1.ModeOverride{{Namespaces: []string{"team-a", "team-b"}, Mode: v1alpha1.ModeLog}}
	})
	selects := kausality("selects", func(s *v1alpha1.KausalitySpec) {
		s.Namespaces = &v1alpha1.GuardedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}, Excluded: []string{"team-c"}}
	})
	named := kausality("named", func(s *v1alpha1.KausalitySpec) { s.Namespaces = &v1alpha1.GuardedNamespaces{Names: []string{"team-b"}} })
	prod := map[string]string{"env": "prod"}
	enforced := []string{"kube-system", "team-a", "team-c"}
	cases := map[string]struct {
		reason    string
		policy    *v1alpha1.Kausality
		namespace string
		labels    map[string]string
		want      string
		outage    string
	}{
		"Log": {reason: "the annotation is stronger than the policy",
			policy: logs, namespace: "team-a", want: "Fail", outage: "allows, refuses in 2 namespaces"},
		"OtherLog": {reason: "log stops nothing",
			policy: logs, namespace: "team-b", want: "Ignore", outage: "allows, refuses in 2 namespaces"},
		"Critical": {reason: "never in the Namespaces of the cluster",
			policy: logs, namespace: "kube-system", outage: "allows, refuses in 2 namespaces"},
		"Enforce": {reason: "it fails closed anyway",
			policy: enforces, namespace: "team-a", want: "Fail", outage: "refuses"},
		"Override": {reason: "the annotation is stronger than the override",
			policy: overrides, namespace: "team-a", want: "Fail,Fail", outage: "refuses in part, refuses in 1 namespace"},
		"OtherOverride": {reason: "not annotated",
			policy: overrides, namespace: "team-b", want: "Ignore,Fail", outage: "refuses in part, refuses in 1 namespace"},
		"Selected": {reason: "the labels still count",
			policy: selects, namespace: "team-a", labels: prod, want: "Fail", outage: "allows, refuses in 1 namespace"},
		"NotSelected": {reason: "the policy is not about it",
			policy: selects, namespace: "team-a", outage: "allows, refuses in 1 namespace"},
		"Excluded": {reason: "nor about this",
			policy: selects, namespace: "team-c", labels: prod, outage: "allows, refuses in 1 namespace"},
		"NamedOther": {reason: "none of its Namespaces is annotated",
			policy: named, namespace: "team-b", want: "Ignore", outage: "allows"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := guardEnforced(t, enforced, tc.policy)
			assert.Equal(t, tc.want, failing(t, g, tc.namespace, tc.labels), tc.reason)
			assert.Equal(t, tc.outage, g.Outages[tc.policy.Name].String())
			assert.Empty(t, g.FailOpen)
			for i := range g.Configuration.Webhooks {
				if w := g.Configuration.Webhooks[i]; strings.Contains(w.Name, "-enforced.") {
					assert.Equal(t, admissionregistrationv1.NamespacedScope, *w.Rules[0].Scope, "a selector of Namespaces lets cluster-scoped objects through")
				}
			}
		})
	}
}

// TestEnforcedProtects: what protects annotations while the webhook is down refuses in such a Namespace, and warns in others.
func TestEnforcedProtects(t *testing.T) {
	g := guardEnforced(t, []string{"team-a"}, kausality("logs", func(s *v1alpha1.KausalitySpec) { s.Mode = v1alpha1.ModeLog }))
	actions := map[string][]admissionregistrationv1.ValidationAction{}
	for _, b := range g.Bindings {
		if b.Spec.PolicyName != annotationProtection {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(b.Spec.MatchResources.NamespaceSelector)
		require.NoError(t, err)
		for _, n := range []string{"team-a", "team-b"} {
			if s.Matches(labels.Set{corev1.LabelMetadataName: n}) {
				actions[n] = append(actions[n], b.Spec.ValidationActions...)
			}
		}
	}
	assert.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, actions["team-a"])
	assert.NotContains(t, actions["team-b"], admissionregistrationv1.Deny)
}

// TestEnforcedBounds: the configuration stays far below what the API server stores, and what has no room in it is reported.
func TestEnforcedBounds(t *testing.T) {
	var enforced []string
	for i := range 20_000 {
		enforced = append(enforced, fmt.Sprintf("%s-%05d", strings.Repeat("n", 57), i))
	}
	var policies []*v1alpha1.Kausality
	for i := range 10 {
		policies = append(policies, kausality(fmt.Sprint("p", i), func(s *v1alpha1.KausalitySpec) { s.Mode = v1alpha1.ModeLog }))
	}
	for _, n := range []int{1, 10} {
		g := guardEnforced(t, enforced, policies[:n]...)
		assert.Equal(t, enforced[maxEnforcedNames/2/n:], g.FailOpen)
		raw, err := g.Configuration.Marshal()
		require.NoError(t, err)
		assert.Less(t, len(raw), 1<<20)
		assert.Equal(t, "Fail", firstOf(failing(t, g, enforced[0], nil)))
		assert.Equal(t, "Ignore", firstOf(failing(t, g, enforced[len(enforced)-1], nil)))
	}
}

func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return first
}

// TestEntryNames: the API server refuses a configuration with two webhooks of one name, which the names of policies must not lead to.
func TestEntryNames(t *testing.T) {
	overridden := func(s *v1alpha1.KausalitySpec) {
		s.Mode, s.Overrides = v1alpha1.ModeLog, []v1alpha1.ModeOverride{{Namespaces: []string{"team-b"}, Mode: v1alpha1.ModeEnforce}}
	}
	g := guardEnforced(t, []string{"team-a"}, kausality("a", overridden), kausality("a-2", overridden), kausality("a-enforced", overridden))
	var names []string
	for i := range g.Configuration.Webhooks {
		names = append(names, g.Configuration.Webhooks[i].Name)
	}
	slices.Sort(names)
	assert.Len(t, names, 3*3+2)
	assert.Len(t, slices.Compact(names), 3*3+2)
	assert.Contains(t, names, "a.admission.kausality.io")
}

// TestTimeout: it is configured, within what the API server accepts (KR-12-12).
func TestTimeout(t *testing.T) {
	for seconds, want := range map[int32]int32{0: DefaultTimeoutSeconds, 1: 1, 30: 30, -1: 0, 31: 0} {
		o := service()
		o.TimeoutSeconds = seconds
		g, err := Guard(o, scopesOf(t, kausality("one", func(*v1alpha1.KausalitySpec) {})), nil, Masked{})
		if want == 0 {
			assert.ErrorContains(t, err, "--webhook-timeout")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, want, *g.Configuration.Webhooks[0].TimeoutSeconds)
		assert.Equal(t, statusTimeout, *g.Configuration.Webhooks[1].TimeoutSeconds, "a status is not waited for longer")
	}
}

// TestSuspend: the webhook of a suspended policy is called for nothing, and the rest of the configuration, by which the gate knows what
// is guarded, stays; what protects annotations and managed resources does, too (KR-12-13).
func TestSuspend(t *testing.T) {
	calls := func(w *admissionregistrationv1.MutatingWebhook) bool {
		was := map[string]any{"apiVersion": "example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "thing"}, "spec": map[string]any{"a": "1"}}
		is := map[string]any{"apiVersion": "example.org/v1", "kind": "Thing", "metadata": map[string]any{"name": "thing"}, "spec": map[string]any{"a": "2"}}
		return matcher(w.MatchConditions).Match(t.Context(), updating(was, is, false), nil, nil).Matches
	}
	plain := kausality("shop", func(s *v1alpha1.KausalitySpec) { s.Mode = v1alpha1.ModeEnforce })
	suspended := plain.DeepCopy()
	suspended.Spec.Suspend = true
	before, after := guardEnforced(t, nil, plain), guardEnforced(t, nil, suspended)
	assert.True(t, calls(&before.Configuration.Webhooks[0]))
	assert.False(t, calls(&after.Configuration.Webhooks[0]))
	assert.Equal(t, "suspended", after.Outages["shop"].String())
	after.Configuration.Webhooks[0].MatchConditions = before.Configuration.Webhooks[0].MatchConditions
	assert.Equal(t, before.Configuration, after.Configuration)
	assert.Equal(t, before.Policies, after.Policies)
	assert.Equal(t, before.Bindings, after.Bindings)
	assert.Equal(t, before.Roles, after.Roles)
}
