package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestDeleteInstance: the deletion of an instance of a graph is decided for all managed resources below it, as that of a composite is
// (KR-08-12).
func TestDeleteInstance(t *testing.T) {
	shop, _ := instanceAndChild()
	w := newWorld()
	w.managed = []*parent.State{parent.Sum(fx.Instance(), parent.RoleManaged)}
	remove := func(mods ...fx.Mod) Decision {
		return decide(t, w, enforced(), by(byCrossplane(Delete, shop, mods...), fx.Alice, ""))
	}

	refusal := remove()
	assert.Equal(t, outcome.ReasonExternalDeletion, refusal.Reason, refusal.Message)
	assert.Contains(t, refusal.Message, "Instance inst")
	assert.Contains(t, refusal.Suggestion, "shops.kro.run db")
	approved := fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+refusal.Digest.ID(), "once")
	d := remove(approved)
	assert.False(t, d.Allowed, "the gates open first")
	assert.Contains(t, d.Message, "it is approved, and the gate is being opened")

	w.managed = []*parent.State{parent.Sum(fx.With(fx.Instance(), open), parent.RoleManaged)}
	assert.True(t, remove(approved).Allowed)
	w.managed = nil
	assert.True(t, remove().Allowed, "nothing is below it")
}

// TestDeleteByInstance: a deletion that was refused to kro for an instance that is being deleted is repeated by the gate, and no other one
// (KR-08-13).
func TestDeleteByInstance(t *testing.T) {
	shop, _ := instanceAndChild()
	shop = fx.With(shop, fx.Annotate("applyset.kubernetes.io/contains-group-kinds",
		"XDatabase.example.org,Instance.aws.example.org,Terraform.infra.contrib.fluxcd.io"))
	deleted := fx.With(shop, fx.Deleting)
	for name, tc := range map[string]struct {
		shop, object *unstructured.Unstructured
		user         subject.User
		repeats      bool
	}{
		"Composite":       {shop: deleted, object: fx.Composite(), user: kro, repeats: true},
		"Managed":         {shop: deleted, object: fx.With(fx.Instance(), owners()), user: kro, repeats: true},
		"Foreign":         {shop: deleted, object: fx.With(destroying(), fx.Set("team", "metadata", "namespace")), user: kro, repeats: true},
		"Dropped":         {shop: shop, object: fx.Composite(), user: kro},
		"User":            {shop: deleted, object: fx.Composite(), user: fx.Alice},
		"OtherController": {shop: deleted, object: fx.Composite(), user: fx.ArgoCD},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.add(tc.shop)
			w.managed = []*parent.State{parent.Sum(fx.Instance(), parent.RoleManaged)}
			d := decide(t, w, enforced(), by(byCrossplane(Delete, tc.object, member, fx.Set("team", "metadata", "namespace")), tc.user, ""))
			require.NotNil(t, d.Report, d.Message)
			assert.Equal(t, outcome.ReasonExternalDeletion, d.Reason)
			assert.Equal(t, tc.repeats, d.Report.Repeat, d.Message)
		})
	}
}
