package policycontroller

import (
	"context"
	"fmt"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// authorsPolicy traces the changes of Compositions and Functions, of which revisions are causes (KR-07-13). Their revisions are no
// part of it: Crossplane makes and deletes them by itself, and each annotation that is written to a
// Composition outside of its own change would make another one (Crossplane v2.3, Composition.Hash).
func authorsPolicy() *v1alpha1.Kausality {
	return &v1alpha1.Kausality{
		ObjectMeta: metav1.ObjectMeta{Name: manifests.AuthorsPolicy, Labels: map[string]string{labelName: nameKausality}},
		Spec: v1alpha1.KausalitySpec{
			TraceOnly: true, Mode: v1alpha1.ModeLog,
			Resources: []v1alpha1.GuardedResources{
				{APIGroups: []string{"apiextensions.crossplane.io"}, Resources: []string{"compositions"}},
				{APIGroups: []string{"pkg.crossplane.io"}, Resources: []string{"functions"}},
			},
		},
	}
}

// traceAuthors creates the policy by which authors are traced, unless one of its name exists: users may
// change it. Its event causes the next run.
func (c *Controller) traceAuthors(ctx context.Context, list *v1alpha1.KausalityList) error {
	if !c.TraceAuthors || slices.ContainsFunc(list.Items, func(k v1alpha1.Kausality) bool { return k.Name == manifests.AuthorsPolicy }) {
		return nil
	}
	err := c.Direct.Create(ctx, authorsPolicy(), client.FieldOwner(v1alpha1.ManagerController))
	if err != nil && !kerrors.IsAlreadyExists(err) {
		return fmt.Errorf("cannot create the policy %s: %w", manifests.AuthorsPolicy, err)
	}
	return nil
}
