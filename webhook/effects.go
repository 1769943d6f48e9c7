package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/drift"
	"github.com/kausality-io/function-kausality/records"
	"github.com/kausality-io/function-kausality/webhook/review"
	"github.com/kausality-io/function-kausality/webhook/stored"
)

// effects of a decision outside of the request path: what is remembered, counted and reported
// (KR-05-27).
func (h *Handler) effects(req *admission.Request, d admission.Decision) {
	if h.Records.Enabled() {
		h.Records.Add(records.OfDecision(req, d))
	}
	h.report(req, d.Report, d.Allowed, d.Allowed)
	if d.Held != nil {
		h.report(req, d.Held.Report, true, false)
	}
	if !d.Allowed {
		return
	}
	if h.Voted != nil && d.Annotations[v1alpha1.AnnotationKeyClaims] != nil {
		h.Voted(req.Ref())
	}
	if d.Exception != nil && h.Policies != nil {
		h.Policies.Used(*d.Exception)
	}
	intent := d.Class != outcome.ClassNone && d.Class != outcome.ClassSelf
	switch {
	case req.Subresource == admission.SubresourceScale && d.Class != outcome.ClassNone:
		h.Memory.Scale(req, d)
	case req.Operation == admission.Update && (intent || d.ChangesUserAnnotation):
		h.Memory.Touch(req.OldObject.GetUID())
	}
}

// report of a decision, or of what is held of a change that passes. logged: what the report is about passes as well.
func (h *Handler) report(req *admission.Request, r *admission.Report, passes, logged bool) {
	if r == nil || h.Reporter == nil {
		return
	}
	h.Reporter.Enqueue(drift.Item{
		Report: r, Request: review.ReportRequest(req), Stored: stored.Still(h.Cluster, req, passes), Logged: logged,
	})
}

// approve on behalf of a policy what the gate opens by approvals. On failure the caller, who was refused,
// retries, and the approval is written then.
func (h *Handler) approve(ctx context.Context, req *admission.Request, d admission.Decision) {
	if d.Approve == nil {
		return
	}
	a := d.Approve
	err := stored.Verify(ctx, h.Cluster, req)
	if errors.Is(err, stored.ErrNotStored) {
		return
	}
	if err == nil {
		err = give(ctx, h, a)
	}
	if err != nil {
		h.Log.Error(err, "cannot write the approval of a policy", "on", identity.Describe(a.Holder))
	}
}

// give an approval on behalf of a policy, with the claim that shows that Kausality gave it (KR-13-69).
func give(ctx context.Context, h *Handler, a *outcome.ApproveEffect) error {
	o, err := h.Cluster.States.Get(ctx, a.Holder, true)
	if err != nil {
		return err
	}
	after := approval.Written(o.Annotations, a.Key, a.Value)
	intent, _ := trace.Intent(o.State)
	edits := approval.Admit(after, o.Generation, intent.Generation, clock.Now(), nil, nil)
	edits[a.Key] = &a.Value
	return h.Cluster.States.Apply(ctx, a.Holder, cluster.Patch{Manager: v1alpha1.ManagerWebhook, ResourceVersion: o.ResourceVersion, Annotations: edits})
}

// orphan marks what a policy leaves behind, before the deletion is allowed.
func (h *Handler) orphan(ctx context.Context, req *admission.Request, d admission.Decision) error {
	if !d.Allowed || len(d.Orphans) == 0 {
		return nil
	}
	if err := stored.Verify(ctx, h.Cluster, req); err != nil {
		return fmt.Errorf("cannot mark what a policy leaves behind: %w", err)
	}
	return h.orphans.Write(ctx, req.Ref(), d.Orphans)
}

// StatusHandler passes on who wants to write the status of objects (KR-02-04, KR-13-20), and restores what
// such a write changes of our metadata (KR-13-16). It always allows.
type StatusHandler struct{ *Handler }

// answer the body of one review of a status write.
func (h StatusHandler) answer(ctx context.Context, body []byte) (resp ctrl.Response) {
	r, err := review.Decode(body, h.Memory.Now())
	if err != nil {
		return review.Complete(review.Unread(err, http.StatusBadRequest, h.Log), r.Uid)
	}
	resp = ctrl.Allowed("")
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error(fmt.Errorf("panic: %v", p), "cannot note the writer of a status", "stack", string(debug.Stack()))
		}
		resp = review.Complete(resp, r.Uid)
	}()
	req := r.Req
	if req.Operation != admission.Update {
		return resp
	}
	resp.Patches = append(review.Patches(req, admission.KeepMetadata(req)), h.dropCondition(ctx, req)...)
	if !req.DryRun && h.StatusReviewed != nil && h.ofController(req) {
		h.StatusReviewed(req)
	}
	return resp
}

// ofController reports whether a status is written by a user from whose writes something is learnt: of Crossplane's kinds, one that
// may be their controller (KR-13-62). Another machine that writes one is logged once a day: it may be a provider that runs elsewhere.
func (h *Handler) ofController(req *admission.Request) bool {
	role, user := h.Evaluator.World.Kind(req.Kind).Role, req.User
	if !role.Crossplane() || h.Evaluator.World.MayControl(user, role) {
		return true
	}
	if _, logged := h.unrecognized.Get(user.Name); user.IsMachine() && !logged {
		h.unrecognized.Add(user.Name, true, unrecognizedAgain)
		h.Log.Info("Ignoring the status write of a user that may not be a controller; the Namespace of a provider must be in --controller-namespaces",
			"user", user.Name, "kind", req.Kind.Kind, "namespace", req.Namespace, "name", req.Name)
	}
	return false
}

const (
	// maxUnrecognized are remembered, so that each is logged once in unrecognizedAgain.
	maxUnrecognized   = 256
	unrecognizedAgain = 24 * time.Hour
)
