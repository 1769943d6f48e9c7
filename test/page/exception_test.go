package page

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestException covers KR-17-19: a user who may not write policies makes no exception, and one who may makes it for the objects of a kind. Updates of
// Crossplane then pass without an approval; that an object is deleted, or replaced, is held all the same.
func TestException(t *testing.T) {
	s := newFixture(t, "exception")
	s.settled("orders", "invoices")
	s.revision("exception-7f3")
	s.refused("exception-7f3", "gold", "orders", "invoices")
	b := look(t, erin)
	b.reloads("exception-7f3", "2 changes")
	b.click("exception-7f3")
	b.click("exception-orders")
	b.click("Make an exception")
	b.awaits("updates by "+crossplane+" pass without an approval", "of Database exception/exception-orders alone", "kind: ApprovalPolicy")
	b.choose("of each Database of cloud.example.org/v1alpha1 in Namespace exception")
	b.choose("for 8 hours")
	b.click("Make an exception")
	b.awaits("you may not do that", "the verbs create and get on approvalpolicies")
	require.NoError(t, the.Grant(t.Context(), erin, decides,
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"approvalpolicies"}, Verbs: []string{"create", "get"}}))
	b.click("Make an exception")
	b.awaits("There is an exception until", "kubectl delete approvalpolicy exception-")
	s.passes("exception-7f3", "gold", "orders")
	s.passes("exception-7f3", "gold", "invoices")
	s.passes("exception-7f3", "platinum", "orders")
	assert.NotContains(t, s.annotations("orders"), v1alpha1.AnnotationKeyApprovePrefix)
	b.reloads("It is over")

	own := s.of(s.own, databases)
	err := own.Delete(t.Context(), s.mrName("orders"), metav1.DeleteOptions{})
	require.ErrorContains(t, err, v1alpha1.AnnotationKeyApprovePrefix)
	raw := []byte(`{"spec":{"providerConfigRef":{"kind":"ClusterProviderConfig","name":"other"}}}`)
	_, err = own.Patch(t.Context(), s.mrName("orders"), types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "crossplane"})
	require.ErrorContains(t, err, v1alpha1.AnnotationKeyApprovePrefix)
}

// choose the radio button with a label.
func (b *tab) choose(label string) {
	b.t.Helper()
	found := false
	b.eval(fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll("main label")].find(e => e.textContent.includes(%q));
		if (!e) return false;
		e.click();
		return true;
	})()`, label), &found)
	require.True(b.t, found, "there is no choice %q", label)
}
