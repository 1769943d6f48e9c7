package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/cluster"
)

const (
	// approverFor is how long an answer holds.
	approverFor = 5 * time.Second
	// maxApprovers bounds the answers that are kept.
	maxApprovers = 4096
	// approverTimeout bounds one question.
	approverTimeout = time.Second
)

// approver asks the API server who may approve, as Kubernetes does for bind and
// escalate.
type approver struct {
	cluster *cluster.Cluster
	now     func() time.Time

	mu      sync.Mutex
	answers map[question]answer
}

type question struct {
	user   string
	groups string
	object parent.Ref
}

type answer struct {
	allowed bool
	until   time.Time
}

func newApprover(c *cluster.Cluster) *approver {
	return &approver{cluster: c, now: time.Now, answers: map[question]answer{}}
}

// may is admission.Options.MayApprove.
func (a *approver) may(ctx context.Context, u subject.User, object parent.Ref) (bool, error) {
	q := question{user: u.Name, groups: strings.Join(u.Groups, ","), object: object}
	a.mu.Lock()
	have, ok := a.answers[q]
	a.mu.Unlock()
	if ok && a.now().Before(have.until) {
		return have.allowed, nil
	}
	allowed, err := a.ask(ctx, u, object)
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.answers) >= maxApprovers {
		clear(a.answers)
	}
	a.answers[q] = answer{allowed: allowed, until: a.now().Add(approverFor)}
	return allowed, nil
}

func (a *approver) ask(ctx context.Context, u subject.User, object parent.Ref) (bool, error) {
	info, err := a.cluster.Kinds.Get(object.GroupVersionKind)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, approverTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: admission.VerbApprove, Group: info.GVR.Group, Version: info.GVR.Version, Resource: info.GVR.Resource,
			Namespace: object.Namespace, Name: object.Name,
		},
	}}
	for k, v := range u.Extra {
		review.Spec.Extra[k] = v
	}
	got, err := a.cluster.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("cannot ask who may approve: %w", err)
	}
	return got.Status.Allowed, nil
}
