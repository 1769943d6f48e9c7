package webhook

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/notify"
	"github.com/kausality-io/function-kausality/policy"
	"github.com/kausality-io/function-kausality/telemetry"
)

// Handler answers the AdmissionReviews of guarded resources.
type Handler struct {
	Evaluator *admission.Evaluator
	Cluster   *cluster.Cluster
	Reporter  *notify.Reporter
	// Policies that rules are claimed in, and their uses noted; nil where there
	// are none.
	Policies *policy.Store
	Log      logr.Logger

	tracker  *tracker
	recorded func(parent.Ref)
}

// maxClaimTries bounds the races for an approval that one request goes through.
const maxClaimTries = 4

// Handle one review. It never panics, and answers as the mode asks where
// something of ours goes wrong.
func (h *Handler) Handle(ctx context.Context, r ctrl.Request) (resp ctrl.Response) {
	started := time.Now()
	ctx, span := telemetry.Span(ctx, "admission")
	var req *admission.Request
	d := admission.Decision{Mode: h.Evaluator.Options.DefaultMode}
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error(fmt.Errorf("panic: %v", p), "cannot decide", "stack", string(debug.Stack()))
			resp = h.failed(h.expectedMode(req), fmt.Errorf("internal error: %v", p))
		}
		observe(r.Kind.Kind, d, resp, time.Since(started))
		telemetry.End(span, nil, "kind", r.Kind.Kind, "operation", string(r.Operation), "class", string(d.Class), "reason", string(d.Reason), "mode", string(d.Mode))
	}()
	var err error
	if req, err = decode(r, started); err != nil {
		return ctrl.Errored(http.StatusBadRequest, err)
	}
	if d, err = h.decideOn(ctx, r, req); err != nil {
		if d.Mode == "" { // not even that could be read
			d.Mode = h.expectedMode(req)
		}
		h.Log.Error(err, "cannot decide", "kind", r.Kind.String(), "namespace", r.Namespace, "name", r.Name)
		return h.failed(d.Mode, err)
	}
	if !req.DryRun {
		h.approve(ctx, d)
		if d.Allowed && d.Reason == admission.ReasonApproved {
			notify.Approved(v1alpha1.RelationControllerChild)
		}
		h.effects(r, req, d)
	}
	return respond(req, d)
}

// decideOn the object that a review is about.
func (h *Handler) decideOn(ctx context.Context, r ctrl.Request, req *admission.Request) (admission.Decision, error) {
	if req.Subresource == admission.SubresourceScale {
		gone, err := h.scaling(ctx, r, req)
		if gone || err != nil {
			return admission.Decision{Allowed: true, Mode: h.expectedMode(req)}, err
		}
	} else if req.Operation == admission.Update && h.tracker.scales(req.OldObject.GetUID()) && changesDesired(req) {
		req.OldObject = h.withPending(req.OldObject, h.Evaluator.World.Kind(req.Kind).Role)
	}
	return h.decide(ctx, req)
}

// decide a request and claim the approval it rests on. A lost race for an
// approval is decided anew on the parent as it is.
func (h *Handler) decide(ctx context.Context, req *admission.Request) (admission.Decision, error) {
	evaluator := h.Evaluator
	d, err := evaluator.Evaluate(ctx, req)
	for range maxClaimTries {
		if err != nil || !d.Allowed || d.Claim == nil && d.PolicyClaim == nil || req.DryRun {
			return d, err
		}
		if d.PolicyClaim != nil && h.Policies == nil {
			return d, fmt.Errorf("cannot claim a rule of %s: this process has no policy store", d.PolicyClaim.Name)
		}
		if d.PolicyClaim != nil {
			lost, err := h.Policies.Claim(ctx, *d.PolicyClaim)
			if err != nil || lost == nil {
				return d, err
			}
			evaluator = &admission.Evaluator{World: evaluator.World, Options: evaluator.Options, Policies: lost}
			if d, err = evaluator.Live(ctx, req); err != nil {
				return d, err
			}
			continue
		}
		c := d.Claim
		err = h.Cluster.States.TakeClaims(ctx, c.Holder, ManagerWebhook, c.Stored, c.HasStored, c.Value)
		if err == nil {
			return d, nil
		}
		if !kerrors.IsInvalid(err) && !kerrors.IsConflict(err) && !kerrors.IsNotFound(err) {
			return d, fmt.Errorf("cannot claim the approval on %s: %w", admission.Describe(c.Holder), err)
		}
		d, err = evaluator.Live(ctx, req)
	}
	return d, fmt.Errorf("cannot claim an approval: lost %d races for it; try again", maxClaimTries)
}

// expectedMode where the decision came to no mode: the policy's, as far as it
// is known, else the default.
func (h *Handler) expectedMode(req *admission.Request) v1alpha1.Mode {
	if f := h.Evaluator.Options.Removing; f != nil && f() {
		return v1alpha1.ModeLog
	}
	if f := h.Evaluator.Options.Settings; f != nil && req != nil {
		o := req.OldObject
		if o == nil {
			o = req.Object
		}
		ref := parent.Ref{GroupVersionKind: req.Kind, Namespace: req.Namespace, Name: req.Name}
		if m := f(ref, o.GetLabels()).Mode; m != "" {
			return m
		}
	}
	return h.Evaluator.Options.DefaultMode
}

// failed answers where nothing was decided.
func (h *Handler) failed(mode v1alpha1.Mode, err error) ctrl.Response {
	if mode == v1alpha1.ModeEnforce {
		return ctrl.Errored(http.StatusInternalServerError, fmt.Errorf("kausality: %w", err))
	}
	resp := ctrl.Allowed("")
	resp.Warnings = []string{fmt.Sprintf("kausality: %v; the change passes because the mode is log", err)}
	return resp
}

// decode a review.
func decode(r ctrl.Request, now time.Time) (*admission.Request, error) {
	req := &admission.Request{
		Operation: admission.Operation(r.Operation), Subresource: r.SubResource, Namespace: r.Namespace, Name: r.Name,
		Kind: schema.GroupVersionKind{Group: r.Kind.Group, Version: r.Kind.Version, Kind: r.Kind.Kind}, Time: now,
		DryRun: r.DryRun != nil && *r.DryRun, FieldManager: fieldManager(r),
		User: subject.User{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups},
	}
	for k, v := range r.UserInfo.Extra {
		if req.User.Extra == nil {
			req.User.Extra = map[string][]string{}
		}
		req.User.Extra[k] = v
	}
	var err error
	if req.Object, err = object(r.Object.Raw); err != nil {
		return nil, fmt.Errorf("cannot decode object: %w", err)
	}
	if req.OldObject, err = object(r.OldObject.Raw); err != nil {
		return nil, fmt.Errorf("cannot decode oldObject: %w", err)
	}
	return req, check(req)
}

func check(req *admission.Request) error {
	switch req.Operation {
	case admission.Create:
		req.OldObject = nil
	case admission.Update:
		if req.OldObject == nil {
			return fmt.Errorf("an UPDATE without oldObject")
		}
	case admission.Delete:
		req.Object = nil
		if req.OldObject == nil {
			return fmt.Errorf("a DELETE without oldObject")
		}
		return nil
	default:
		return fmt.Errorf("operation %q is not handled", req.Operation)
	}
	if req.Object == nil {
		return fmt.Errorf("a %s without object", req.Operation)
	}
	return nil
}

// object of a review; nil where there is none. What the API server sends has its
// kind and is no list, so that it is read in one go.
func object(raw []byte) (*unstructured.Unstructured, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // nil is an object that is not there.
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil || content == nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// fieldManager of the request's options, of whatever kind they are.
func fieldManager(r ctrl.Request) string {
	if len(r.Options.Raw) == 0 || r.Operation == admissionv1.Delete {
		return ""
	}
	var options struct {
		FieldManager string `json:"fieldManager"`
	}
	if err := json.Unmarshal(r.Options.Raw, &options); err != nil {
		return ""
	}
	return options.FieldManager
}
