package webhook

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/webhook/review"
)

// Handler answers the AdmissionReviews of guarded resources.
type Handler struct{ *decider.Decider }

// answer the body of one review. It never panics: an internal error is answered as the mode requires (KR-13-02).
func (h *Handler) answer(ctx context.Context, body []byte) (resp ctrl.Response) {
	started := time.Now()
	r := &review.Review{Req: &admission.Request{}}
	defer func() {
		if p := recover(); p != nil {
			resp = review.Complete(failed(h.Panicked(r.Req, p)), r.Uid)
		}
	}()
	var err error
	if r, err = review.Decode(body, clock.Now()); err != nil {
		return review.Complete(review.Unread(err, http.StatusBadRequest, h.Log), r.Uid)
	}
	d, undecided := h.Decide(ctx, decider.Incoming{Request: r.Req, Resource: r.Resource, Since: started})
	if undecided != nil {
		return review.Complete(failed(undecided), r.Uid)
	}
	return review.Complete(review.Respond(r.Req, d), r.Uid)
}

// failed returns the response if nothing could be decided: a refusal, so that the caller retries, or a warning.
func failed(e *decider.UndecidedError) ctrl.Response {
	if code := e.Code(); code != 0 {
		return ctrl.Errored(code, e)
	}
	return ctrl.Allowed("").WithWarnings(e.Warning())
}

// StatusHandler answers the AdmissionReviews of writes of the status. It always allows.
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
			_ = h.Panicked(r.Req, p) // it is logged, and the status is written
		}
		resp = review.Complete(resp, r.Uid)
	}()
	if r.Req.Operation == admission.Update {
		d, drop := h.Status(ctx, r.Req)
		resp.Patches = append(review.Patches(r.Req, d), dropped(drop)...)
	}
	return resp
}

// dropped returns the patches that remove a condition of a status by its index; nil for none, which is -1.
func dropped(i int) []jsonpatch.Operation {
	if i < 0 {
		return nil
	}
	path := "/status/conditions/" + strconv.Itoa(i)
	return []jsonpatch.Operation{jsonpatch.NewOperation("test", path+"/type", v1alpha1.ConditionKausality), jsonpatch.NewOperation("remove", path, nil)}
}
