package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/drift"
	"github.com/kausality-io/function-kausality/policystore"
	"github.com/kausality-io/function-kausality/records"
	"github.com/kausality-io/function-kausality/telemetry"
	"github.com/kausality-io/function-kausality/webhook/builds"
	"github.com/kausality-io/function-kausality/webhook/orphans"
	"github.com/kausality-io/function-kausality/webhook/review"
	"github.com/kausality-io/function-kausality/webhook/settler"
	"github.com/kausality-io/function-kausality/webhook/stored"
)

// Handler answers the AdmissionReviews of guarded resources.
type Handler struct {
	Evaluator *admission.Evaluator
	// Current returns the Evaluator of a request in a Namespace, "" for none; nil where that is always Evaluator.
	Current  func(ctx context.Context, namespace string) (*admission.Evaluator, error)
	Cluster  *cluster.Cluster
	Reporter *drift.Reporter
	// Policies whose rules are claimed and whose uses are counted; nil for none.
	Policies *policystore.Store
	// Kinds that policies name.
	Kinds allowance.Kinds
	Log   logr.Logger
	// Records of what is decided; nil where none are kept.
	Records *records.Recorder

	// Memory of what requests show, never nil.
	Memory *settler.Memory
	// Held is what was refused before; nil where nothing is remembered.
	Held *drift.Memory
	// orphans are what policies leave behind; needed where there are such policies.
	orphans *orphans.Marks
	// builds find out whether our function is a step of a composite; nil where that is unknown.
	builds *builds.Builds
	// unrecognized are users that wrote statuses and may be no controllers, by name; needed where statuses are reviewed.
	unrecognized *utilcache.LRUExpireCache
	// StatusReviewed is called with each request that would write a status; nil for nothing.
	StatusReviewed func(*admission.Request)
	// Voted is called with each object that a write leaves votes on; nil for nothing.
	Voted func(parent.Ref)
}

// maxClaimTries bounds how often one request tries to claim an approval that others claim, too.
const maxClaimTries = 4

// answer the body of one review. It never panics: an internal error is answered as the mode requires
// (KR-13-02).
func (h *Handler) answer(ctx context.Context, body []byte) (resp ctrl.Response) {
	started := time.Now()
	ctx, span := telemetry.Span(ctx, "admission")
	r, read := &review.Review{Req: &admission.Request{}}, false
	d := admission.Decision{Mode: h.Evaluator.Options.DefaultMode}
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error(fmt.Errorf("panic: %v", p), "cannot decide", "stack", string(debug.Stack()))
			resp = h.failed(h.expectedMode(r.Req), fmt.Errorf("internal error: %v", p))
		}
		resp = review.Complete(resp, r.Uid)
		if read {
			observe(h.label(r.Req), d, resp, time.Since(started))
		}
		telemetry.End(span, nil, "kind", r.Kind, "operation", string(r.Req.Operation), "class", string(d.Class), "reason", string(d.Reason), "mode", string(d.Mode))
	}()
	var err error
	if r, err = review.Decode(body, clock.Now()); err != nil {
		return review.Unread(err, http.StatusBadRequest, h.Log)
	}
	read = true
	req := r.Req
	if d, err = h.decideOn(ctx, r); err != nil {
		if d.Mode == "" { // the error came before it was read
			d.Mode = h.expectedMode(req)
		}
		h.Log.Error(err, "cannot decide", "kind", req.Kind.String(), "namespace", req.Namespace, "name", req.Name)
		return h.failed(d.Mode, err)
	}
	if !req.DryRun {
		if err := h.orphan(ctx, req, d); err != nil {
			h.Log.Error(err, "cannot mark what a policy leaves behind", "kind", req.Kind.String(), "namespace", req.Namespace, "name", req.Name)
			return h.failed(v1alpha1.ModeEnforce, err)
		}
		h.approve(ctx, req, d)
		h.remember(ctx, req, d.Report)
		if d.Held != nil {
			h.remember(ctx, req, d.Held.Report)
		}
		if d.Allowed && d.Reason == outcome.ReasonApproved {
			drift.Approved(v1alpha1.RelationControllerChild)
		}
		h.effects(req, d)
	}
	return review.Respond(req, d)
}

// label of a request's kind in metrics. Any client that reaches the port can name
// kinds: those that are neither built in nor of a CRD share one (KR-13-07).
func (h *Handler) label(req *admission.Request) string {
	if h.Evaluator.World.Kind(req.Kind) == (identity.Kind{}) && !scheme.Scheme.Recognizes(req.Kind) {
		return "unknown"
	}
	return req.Kind.Kind
}

// decideOn the object that a review is about.
func (h *Handler) decideOn(ctx context.Context, r *review.Review) (admission.Decision, error) {
	req := r.Req
	asStored := req.OldObject
	if req.Subresource == admission.SubresourceScale {
		gone, err := h.scaling(ctx, r)
		if gone || err != nil {
			return admission.Decision{Allowed: true, Mode: h.expectedMode(req)}, err
		}
	} else if err := stored.Known(ctx, h.Cluster, req); err != nil {
		return admission.Decision{}, err
	} else if req.Operation == admission.Update && h.Memory.Scales(req.OldObject.GetUID()) && changesDesired(req) {
		req.OldObject = h.Memory.FillObject(req.OldObject, h.Evaluator.World.Kind(req.Kind).Role)
	}
	if h.Held != nil {
		req.Held = h.Held.Held(req)
	}
	evaluator, err := h.evaluator(ctx, req.Namespace)
	if err != nil {
		return admission.Decision{}, err
	}
	if req.OldObject != nil {
		req.OldObject = claimsKeys(h).TrustedIn(req.OldObject, req.Time) // KR-13-69
	}
	d, err := h.decide(ctx, evaluator, req)
	if d.Unchanged { // what was filled in to decide is not stored
		d.Rest = asStored
	}
	if !req.DryRun { // nothing is stored of that, and a seal may be
		d.Annotations = claimsKeys(h).SealIn(cluster.Sealed(req.Ref()), d.Annotations)
	}
	return d, err
}

// claimsKeys are the keys that seal claims; none without a cluster.
func claimsKeys(h *Handler) *approval.Keys {
	if h.Cluster == nil {
		return nil
	}
	return h.Cluster.Claims
}

// decide a request and claim the approval that allows it (KR-05-33). If another request claimed it
// first, the request is decided again on the live parent.
func (h *Handler) decide(ctx context.Context, evaluator *admission.Evaluator, req *admission.Request) (admission.Decision, error) {
	d, err := evaluator.Evaluate(ctx, req)
	for i := range maxClaimTries {
		if err != nil || !d.Allowed || d.Claim == nil && d.PolicyClaim == nil || req.DryRun {
			return d, err
		}
		if i == 0 {
			if err := stored.Verify(ctx, h.Cluster, req); err != nil {
				return d, err
			}
		}
		if d.PolicyClaim != nil && h.Policies == nil {
			return d, fmt.Errorf("cannot claim a rule of %s: this process has no policy store", d.PolicyClaim.Name)
		}
		if d.PolicyClaim != nil {
			lost, err := h.Policies.Claim(ctx, *d.PolicyClaim, evaluator.Policies.Policies())
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
		err = h.Cluster.States.TakeClaims(ctx, c.Holder, v1alpha1.ManagerWebhook, c.Stored, c.HasStored, c.Value)
		if err == nil {
			return d, nil
		}
		if !kerrors.IsInvalid(err) && !kerrors.IsConflict(err) && !kerrors.IsNotFound(err) {
			return d, fmt.Errorf("cannot claim the approval on %s: %w", identity.Describe(c.Holder), err)
		}
		d, err = evaluator.Live(ctx, req)
	}
	return d, fmt.Errorf("cannot claim an approval: lost %d races for it; try again", maxClaimTries)
}

// expectedMode of a request for which no mode was decided: the policy's if it is known, else the default.
func (h *Handler) expectedMode(req *admission.Request) v1alpha1.Mode {
	if h.Evaluator.World.Removing() {
		return v1alpha1.ModeLog
	}
	o := req.OldObject
	if o == nil {
		o = req.Object
	}
	if o != nil {
		ref := parent.Ref{GroupVersionKind: req.Kind, Namespace: req.Namespace, Name: req.Name}
		if m := h.Evaluator.World.Settings(ref, o.GetLabels()).Mode; m != "" {
			return m
		}
	}
	return h.Evaluator.Options.DefaultMode
}

// failed is the response if nothing could be decided: 500 in mode enforce, or 409 where the object is another one,
// so that the caller retries, and a warning in mode log (KR-05-22).
func (h *Handler) failed(mode v1alpha1.Mode, err error) ctrl.Response {
	if mode == v1alpha1.ModeEnforce && errors.Is(err, stored.ErrNotStored) {
		return ctrl.Errored(http.StatusConflict, fmt.Errorf("kausality: %w", err))
	}
	if mode == v1alpha1.ModeEnforce {
		return ctrl.Errored(http.StatusInternalServerError, fmt.Errorf("kausality: %w", err))
	}
	resp := ctrl.Allowed("")
	resp.Warnings = []string{fmt.Sprintf("kausality: %v; the change passes because the mode is log", err)}
	return resp
}
