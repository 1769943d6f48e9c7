package webhook

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/kausality-io/function-kausality/admission/identity"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/drift"
)

// effects of a decision that are not in the way of the request.
func (h *Handler) effects(req *admission.Request, d admission.Decision) {
	if d.Report != nil && h.Reporter != nil {
		h.Reporter.Enqueue(drift.Item{Report: d.Report, Old: req.OldObject, New: reported(req), Request: reportRequest(req)})
	}
	if !d.Allowed {
		return
	}
	if d.Exception != nil && h.Policies != nil {
		h.Policies.Used(*d.Exception)
	}
	intent := d.Class != admission.ClassNone && d.Class != admission.ClassSelf
	switch {
	case req.Subresource == admission.SubresourceScale && d.Class != admission.ClassNone:
		h.tracker.sawScale(req, d)
	case req.Operation == admission.Update && (intent || d.Said):
		h.tracker.touch(req.OldObject.GetUID())
	}
}

// approve on behalf of a policy what the gate opens by approvals. What cannot be
// written is asked for again by whoever was refused.
func (h *Handler) approve(ctx context.Context, d admission.Decision) {
	if d.Approve == nil {
		return
	}
	a := d.Approve
	err := h.Cluster.States.Apply(ctx, a.Holder, cluster.Patch{Manager: ManagerWebhook, Annotations: map[string]*string{a.Key: &a.Value}})
	if err != nil {
		h.Log.Error(err, "cannot approve what a policy allows", "on", identity.Describe(a.Holder))
	}
}

func reported(req *admission.Request) *unstructured.Unstructured {
	if req.Object != nil {
		return req.Object
	}
	return req.OldObject
}

// StatusHandler notes who writes the status of objects. It always allows.
type StatusHandler struct{ *Handler }

// answer the body of one review of a status write.
func (h StatusHandler) answer(_ context.Context, body []byte) (resp ctrl.Response) {
	r, err := decode(body, h.tracker.now())
	if err != nil {
		return complete(unread(err, http.StatusBadRequest, h.Log), r.uid)
	}
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error(fmt.Errorf("panic: %v", p), "cannot note who writes a status", "stack", string(debug.Stack()))
		}
		resp = complete(ctrl.Allowed(""), r.uid)
	}()
	if req := r.req; req.Operation == admission.Update && !req.DryRun {
		h.tracker.sawStatus(req)
		if h.recorded != nil {
			h.recorded(parent.RefOf(req.Object))
		}
	}
	return resp
}
