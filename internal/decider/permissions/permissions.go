package permissions

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

const (
	// approverTTL is for how long an answer about approvals is used, controllerTTL for how long one about
	// statuses is: a controller does not lose its permission from one moment to the next.
	approverTTL, controllerTTL = 5 * time.Second, time.Minute
	// maxPermissions bounds the answers that are kept.
	maxPermissions = 4096
	// permissionTimeout bounds one SubjectAccessReview.
	permissionTimeout = time.Second
)

// Check reports whether a user has a permission.
type Check func(ctx context.Context, of authorizationv1.SubjectAccessReviewSpec) (bool, error)

// Permissions of users, by SubjectAccessReviews of the API server. It is safe for concurrent use.
type Permissions struct {
	cluster *cluster.Cluster
	// check in place of SubjectAccessReviews; nil for these.
	check   Check
	answers *cache.LRUExpireCache // of bool, by the hash of the SubjectAccessReviewSpec
}

// New Permissions, without answers. check takes the place of SubjectAccessReviews; it may be nil.
func New(c *cluster.Cluster, check Check) *Permissions {
	return &Permissions{cluster: c, check: check, answers: cache.NewLRUExpireCache(maxPermissions)}
}

// MayApprove is admission.World.MayApprove (KR-02-13): the verb approve, on a subresource as Kubernetes checks it for
// CertificateSigningRequests.
func (p *Permissions) MayApprove(ctx context.Context, u subject.User, object parent.Ref, subresource string) (bool, error) {
	what := authorizationv1.ResourceAttributes{Verb: admission.VerbApprove, Subresource: subresource, Name: object.Name}
	return p.may(ctx, u, object, what, approverTTL)
}

// MayUpdateStatus is admission.World.MayUpdateStatus (KR-13-04). A controller that applies its statuses
// may have the verb patch alone.
func (p *Permissions) MayUpdateStatus(ctx context.Context, u subject.User, object parent.Ref) (may bool, err error) {
	for _, verb := range []string{"update", "patch"} {
		may, err = p.may(ctx, u, object, authorizationv1.ResourceAttributes{Verb: verb, Subresource: "status"}, controllerTTL)
		if may || err != nil {
			return may, err
		}
	}
	return false, nil
}

// may reports whether a user has a permission on an object.
func (p *Permissions) may(ctx context.Context, u subject.User, object parent.Ref, what authorizationv1.ResourceAttributes,
	ttl time.Duration,
) (bool, error) {
	info, err := p.cluster.Kinds.Get(object.GroupVersionKind)
	if err != nil {
		return false, err
	}
	what.Group, what.Version, what.Resource, what.Namespace = info.GVR.Group, info.GVR.Version, info.GVR.Resource, object.Namespace
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string]authorizationv1.ExtraValue{}, ResourceAttributes: &what,
	}
	for k, v := range u.Extra {
		spec.Extra[k] = v
	}
	if p.check != nil {
		return p.check(ctx, spec)
	}
	raw, err := json.Marshal(spec) // sorts the keys of Extra
	if err != nil {
		return false, fmt.Errorf("cannot encode a SubjectAccessReview: %w", err)
	}
	key := sha256.Sum256(raw) // groups and extra fields may be as large as a review
	if allowed, ok := p.answers.Get(key); ok {
		return allowed.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, permissionTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	if review, err = p.cluster.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return false, fmt.Errorf("cannot check the permission %s of %s: %w", strings.TrimSuffix(what.Verb+" "+what.Resource+"/"+what.Subresource, "/"), u.Name, err)
	}
	p.answers.Add(key, review.Status.Allowed, ttl)
	return review.Status.Allowed, nil
}
