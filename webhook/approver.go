package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/cluster"
)

const (
	// approverTTL is for how long an answer of the API server is used.
	approverTTL = 5 * time.Second
	// maxApprovers bounds the answers that are kept.
	maxApprovers = 4096
	// approverTimeout bounds one SubjectAccessReview.
	approverTimeout = time.Second
)

// approvers asks the API server who has the permission to approve (KR-02-13), as Kubernetes does for the
// verbs bind and escalate. It is safe for concurrent use.
type approvers struct {
	cluster *cluster.Cluster
	answers *cache.LRUExpireCache // of bool, by SubjectAccessReviewSpec as JSON
}

func newApprovers(c *cluster.Cluster) *approvers {
	return &approvers{cluster: c, answers: cache.NewLRUExpireCache(maxApprovers)}
}

// may is admission.Options.MayApprove.
func (a *approvers) may(ctx context.Context, u subject.User, object parent.Ref) (bool, error) {
	info, err := a.cluster.Kinds.Get(object.GroupVersionKind)
	if err != nil {
		return false, err
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: admission.VerbApprove, Group: info.GVR.Group, Version: info.GVR.Version, Resource: info.GVR.Resource,
			Namespace: object.Namespace, Name: object.Name,
		},
	}
	for k, v := range u.Extra {
		spec.Extra[k] = v
	}
	raw, err := json.Marshal(spec) // sorts the keys of Extra
	if err != nil {
		return false, fmt.Errorf("cannot encode a SubjectAccessReview: %w", err)
	}
	key := string(raw)
	if allowed, ok := a.answers.Get(key); ok {
		return allowed.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, approverTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	if review, err = a.cluster.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return false, fmt.Errorf("cannot check who may approve: %w", err)
	}
	a.answers.Add(key, review.Status.Allowed, approverTTL)
	return review.Status.Allowed, nil
}
