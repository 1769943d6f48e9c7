package policycontroller

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
)

func upgrade(name string, selector *metav1.LabelSelector) *v1alpha1.UpgradeAllowance {
	return &v1alpha1.UpgradeAllowance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UpgradeAllowanceSpec{Selector: selector}}
}

// The webhook is called for changes of the labels by which ApprovalRules and UpgradeAllowances select, of a bounded number (KR-13-46, KR-14-60).
func TestSelectedBy(t *testing.T) {
	many := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range maxSelectedBy {
		many.MatchLabels[fmt.Sprint(i)] = "x"
	}
	rule := &v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, Spec: v1alpha1.ApprovalRuleSpec{
		Match: v1alpha1.ApprovalRuleMatch{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"owner": "dba"}}}}}
	all := &v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	h := newHarness(t, nil, policyCRD(), shopPolicy(), rule, all, upgrade("all", nil), upgrade("z", many),
		upgrade("some", &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "tin"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: metav1.LabelSelectorOpExists}}}))
	keys, err := h.selectedBy(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"owner", "region", "tier"}, keys)
	_, err = h.run(t)
	require.NoError(t, err)
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	require.NoError(t, h.Direct.Get(t.Context(), client.ObjectKey{Name: scope.ConfigurationName}, live))
	assert.Contains(t, live.Webhooks[0].MatchConditions[0].Expression, `["owner", "region", "tier"]`)
}
