package policystore

import (
	"context"
	"errors"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxClaimTries bounds the conflicts of one claim. The API server gives a webhook at
// most 30 s, and each conflict means that another replica made progress.
const maxClaimTries = 5

// Claim a rule in the status of its policy, before the change is allowed
// (KR-05-33). Of two replicas that claim at the same moment one gets a conflict,
// reads the policy again, and finds the claim of the other. An existing claim for
// the same use is not written again.
//
// Where another use claimed it first, lost is the Set, made of the one by which the request was decided, by
// which it must be decided again; nil where the claim is written. After an error it is unknown
// whether the rule is claimed.
func (s *Store) Claim(ctx context.Context, e outcome.PolicyClaimEffect, by *allowance.Set) (lost *allowance.Set, err error) {
	client, name := s.resource(e.Namespace), e.Name
	for range maxClaimTries {
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			return by.Without(key(e)), nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", key(e), err)
		}
		claims, err := claimsOf(o)
		if err != nil {
			return nil, err
		}
		free, mine := allowance.Claimable(claims, e.Claim, e.Stale)
		switch {
		case mine != nil:
			return nil, nil //nolint:nilnil // Nothing is lost.
		case !free:
			return by.WithClaims(key(e), claims), nil
		}
		err = writeClaims(ctx, client, o, allowance.Claimed(claims, e.Claim))
		if err == nil {
			return nil, nil //nolint:nilnil // Nothing is lost.
		}
		if !kerrors.IsConflict(err) {
			return nil, fmt.Errorf("cannot claim %s: %w", key(e), err)
		}
	}
	return nil, fmt.Errorf("cannot claim %s: %w", key(e), errors.New("too many conflicts; try again"))
}

// manager is the field manager of the status of policies.
const manager = v1alpha1.ManagerWebhook

// key of the policy of a claim, as allowance.Set has it.
func key(e outcome.PolicyClaimEffect) string {
	return (&allowance.Exception{Namespace: e.Namespace, Name: e.Name}).Key()
}

// resource of ApprovalPolicies; of cluster-scoped ones where namespace is empty.
func (s *Store) resource(namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return s.client.Resource(gvr(v1alpha1.ResourceClusterApprovalPolicies))
	}
	return s.client.Resource(gvr(v1alpha1.ResourceApprovalPolicies)).Namespace(namespace)
}

// claimsOf a policy's status; nil for none.
func claimsOf(o *unstructured.Unstructured) ([]v1alpha1.PolicyClaim, error) {
	status, err := statusAs[v1alpha1.ApprovalPolicyStatus](o)
	return status.Claims, err
}

// writeClaims to the status of a policy as it was read: another write in between is a conflict.
func writeClaims(ctx context.Context, c dynamic.ResourceInterface, o *unstructured.Unstructured, claims []v1alpha1.PolicyClaim) error {
	if err := setClaims(o, claims); err != nil {
		return err
	}
	_, err := c.UpdateStatus(ctx, o, metav1.UpdateOptions{FieldManager: manager})
	return err
}

// setClaims in the status of an object that is to be written; o is modified. The list is
// replaced as a whole, since it is atomic in the CRD.
func setClaims(o *unstructured.Unstructured, claims []v1alpha1.PolicyClaim) error {
	list := make([]any, 0, len(claims))
	for i := range claims {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&claims[i])
		if err != nil {
			return fmt.Errorf("cannot write a claim: %w", err)
		}
		list = append(list, m)
	}
	return unstructured.SetNestedSlice(o.Object, list, "status", "claims")
}
