package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/rollout"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/webhook/review"
)

// Handler records the votes for Rollouts, and keeps others from their statuses and batches.
type Handler struct {
	Evaluator *admission.Evaluator
	// Current returns the Evaluator of a request in a Namespace, "" for none, by the policies as they are now.
	Current func(ctx context.Context, namespace string) (*admission.Evaluator, error)
	// Claims are the keys that seal claims.
	Claims *approval.Keys
	Log    logr.Logger
}

// rolloutObject is what is read of a Rollout or ClusterRollout.
type rolloutObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              v1alpha1.RolloutSpec   `json:"spec"`
	Status            v1alpha1.RolloutStatus `json:"status"`
}

// Handle one review.
func (h Handler) Handle(ctx context.Context, r ctrl.Request) ctrl.Response {
	user := subject.User{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups, Extra: map[string][]string{}}
	for k, v := range r.UserInfo.Extra {
		user.Extra[k] = v
	}
	manager, err := managerOf(r)
	if err != nil {
		return ctrl.Errored(http.StatusBadRequest, err)
	}
	if h.Evaluator.World.Component(user, manager) {
		return ctrl.Allowed("")
	}
	if r.Kind.Kind == v1alpha1.KindRolloutBatch || r.SubResource != "" {
		return refuseRollout(http.StatusForbidden, "only Kausality writes how far a Rollout is; to stop a Rollout, set its spec.stop, to go on, spec.proceed")
	}
	current, err := h.Current(ctx, r.Namespace)
	if err != nil {
		return ctrl.Errored(http.StatusInternalServerError, fmt.Errorf("kausality: %w", err))
	}
	set := current.Policies.Policies()
	now, was, err := decode(r)
	if err != nil {
		return ctrl.Errored(http.StatusBadRequest, fmt.Errorf("cannot decode the %s: %w", r.Kind.Kind, err))
	}
	asked := rollout.Review{New: r.Operation == admissionv1.Create, Incoming: now.Annotations, Spec: &now.Spec, Namespace: r.Namespace, User: user,
		Manager: manager, Groups: set.Groups(), Now: clock.Now()}
	if !asked.New {
		asked.Stored, asked.Was = h.Claims.Trusted(sealed(r, was.UID), was.Annotations, asked.Now), was.Spec
		if was.Status.Plan != nil {
			asked.Plan = was.Status.Plan.ID
		}
	}
	out := asked.Decide()
	if out.Refused != "" {
		return refuseRollout(http.StatusUnprocessableEntity, r.Kind.Kind+" "+r.Name+": "+out.Refused)
	}
	if out.Approves && h.Evaluator.Options.ApproverRBAC.Required() {
		warning, refusal := h.authorize(ctx, r, user)
		if refusal != nil {
			return *refusal
		}
		out.Warnings = append(out.Warnings, warning...)
	}
	resp := ctrl.Allowed("").WithWarnings(out.Warnings...)
	resp.Patches = review.AnnotationPatches(now.Annotations, h.edits(r, was.UID, out.Edits))
	if len(resp.Patches) > 0 {
		resp.PatchType = new(admissionv1.PatchTypeJSONPatch)
	}
	return resp
}

// edits of annotations, with a seal of the claims; without one in a dry run, of which nothing is stored.
func (h Handler) edits(r ctrl.Request, uid types.UID, edits map[string]*string) map[string]*string {
	if r.DryRun != nil && *r.DryRun {
		return edits
	}
	return h.Claims.SealIn(sealed(r, uid), edits)
}

// sealed returns the Rollout of a review, for the seals of its claims.
func sealed(r ctrl.Request, uid types.UID) approval.Sealed {
	return approval.Sealed{Kind: schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, Namespace: r.Namespace, Name: r.Name, UID: uid}
}

// decode the incoming and the stored object of a review; the latter is zero for a creation.
func decode(r ctrl.Request) (now, was rolloutObject, err error) {
	if err = json.Unmarshal(r.Object.Raw, &now); err == nil && r.Operation != admissionv1.Create {
		err = json.Unmarshal(r.OldObject.Raw, &was)
	}
	return now, was, err
}

// authorize a user to approve a Rollout, or to let it go on; refusal is nil where they may.
func (h Handler) authorize(ctx context.Context, r ctrl.Request, user subject.User) (warnings []string, refusal *ctrl.Response) {
	ref := parent.Ref{GroupVersionKind: schema.GroupVersionKind(r.Kind), Namespace: r.Namespace, Name: r.Name}
	what := fmt.Sprintf("approving %s %s, or letting it go on,", r.Kind.Kind, r.Name)
	right, err := actor.RightOf(ctx, h.Evaluator.World, &h.Evaluator.Options, user, ref)
	switch {
	case err != nil:
		return nil, new(ctrl.Errored(http.StatusInternalServerError, fmt.Errorf("kausality: %w", err)))
	case !right.Has:
		return nil, new(refuseRollout(http.StatusForbidden, fmt.Sprintf("%s needs the verb %q on the subresource %s of it; "+
			"a Role can grant it with resources: [%s/%[3]s]", what, admission.VerbApprove, admission.SubresourceApproval, r.Resource.Resource)))
	case right.Former:
		return []string{actor.FormerRight(what, user.Name)}, nil
	}
	return nil, nil
}

// Answer a review.
func (h Handler) Answer(ctx context.Context, body []byte) (resp ctrl.Response) {
	asked := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, &asked); err != nil {
		return review.Complete(review.Unread(err, http.StatusBadRequest, h.Log), review.UIDIn(body))
	}
	if asked.Request == nil {
		return review.Unread(errors.New("a review without request"), http.StatusBadRequest, h.Log)
	}
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error(fmt.Errorf("panic: %v", p), "cannot review a Rollout", "stack", string(debug.Stack()))
			resp = ctrl.Errored(http.StatusInternalServerError, fmt.Errorf("internal error: %v", p))
		}
		resp = review.Complete(resp, asked.Request.UID)
	}()
	return h.Handle(ctx, ctrl.Request{AdmissionRequest: *asked.Request})
}

// managerOf a request, as the API server names it.
func managerOf(r ctrl.Request) (string, error) {
	if len(r.Options.Raw) == 0 {
		return "", nil
	}
	options := struct {
		FieldManager string `json:"fieldManager"`
	}{}
	if err := json.Unmarshal(r.Options.Raw, &options); err != nil {
		return "", fmt.Errorf("cannot decode the options: %w", err)
	}
	return options.FieldManager, nil
}

func refuseRollout(code int32, text string) ctrl.Response {
	resp := ctrl.Denied("")
	reason := metav1.StatusReasonForbidden
	if code == http.StatusUnprocessableEntity {
		reason = metav1.StatusReasonInvalid
	}
	resp.Result = &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: text}
	return resp
}
