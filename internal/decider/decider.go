package decider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/decider/builds"
	"github.com/kausality-io/function-kausality/internal/decider/orphans"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
	"github.com/kausality-io/function-kausality/internal/decider/stored"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/policystore"
	"github.com/kausality-io/function-kausality/internal/records"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

// Decider decides requests about guarded objects, and carries out the effects of its decisions. It is safe for concurrent use.
type Decider struct {
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
	// Orphans are what policies leave behind; needed where there are such policies.
	Orphans *orphans.Marks
	// Builds find out whether our function is a step of a composite; nil where that is unknown.
	Builds *builds.Builds
	// Unrecognized are users that wrote statuses and may be no controllers, by name; needed where statuses are reviewed.
	Unrecognized *utilcache.LRUExpireCache
	// StatusReviewed is called with each request that would write a status; nil for nothing.
	StatusReviewed func(*admission.Request)
	// Voted is called with each object that a write leaves votes on; nil for nothing.
	Voted func(parent.Ref)
}

// maxClaimTries bounds how often one request tries to claim an approval that others claim, too.
const maxClaimTries = 4

// Incoming is a request that an adapter brings.
type Incoming struct {
	// Request is not nil. It is modified: of a change through /scale it becomes one of the scaled object.
	*admission.Request
	// Resource that the request is for.
	Resource schema.GroupVersionResource
	// Since is when the adapter began to read it.
	Since time.Time
}

// UndecidedError is why nothing could be decided about a request, and the Mode by which it is answered (KR-05-22).
type UndecidedError struct {
	Mode v1alpha1.Mode
	Err  error
}

// Error returns the message of a refusal.
func (e *UndecidedError) Error() string { return "kausality: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UndecidedError) Unwrap() error { return e.Err }

// Code returns the HTTP code of the answer: 500 in mode enforce, or 409 where the object is another one, so that the caller retries; 0 in mode
// log, where the request passes with a Warning.
func (e *UndecidedError) Code() int32 {
	switch {
	case e.Mode != v1alpha1.ModeEnforce:
		return 0
	case errors.Is(e.Err, stored.ErrNotStored):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// Warning returns the warning to a user whose request passes.
func (e *UndecidedError) Warning() string {
	return fmt.Sprintf("kausality: %v; the change passes because the mode is log", e.Err)
}

// Decide about a request, and carry out the effects of the decision unless it is a dry-run. It never panics: an internal error is answered as
// the mode requires (KR-13-02).
func (dr *Decider) Decide(ctx context.Context, in Incoming) (out admission.Decision, undecided *UndecidedError) {
	ctx, span := telemetry.Span(ctx, "admission")
	req, kind := in.Request, in.Kind.Kind
	out.Mode = dr.Evaluator.Options.DefaultMode
	defer func() {
		if p := recover(); p != nil {
			undecided = dr.Panicked(req, p)
		}
		passes := out.Allowed
		if undecided != nil {
			passes = undecided.Code() == 0
		}
		observe(label(dr, req), out, passes, time.Since(in.Since))
		telemetry.End(span, nil, "kind", kind, "operation", string(req.Operation), "class", string(out.Class), "reason", string(out.Reason), "mode", string(out.Mode))
	}()
	out, err := dr.decideOn(ctx, in)
	if err != nil {
		if out.Mode == "" { // the error came before it was read
			out.Mode = expectedMode(dr, req)
		}
		dr.Log.Error(err, "cannot decide", "kind", req.Kind.String(), "namespace", req.Namespace, "name", req.Name)
		return out, &UndecidedError{Mode: out.Mode, Err: err}
	}
	if req.DryRun {
		return out, nil
	}
	if err := orphan(ctx, dr, req, out); err != nil {
		dr.Log.Error(err, "cannot mark what a policy leaves behind", "kind", req.Kind.String(), "namespace", req.Namespace, "name", req.Name)
		return out, &UndecidedError{Mode: v1alpha1.ModeEnforce, Err: err}
	}
	dr.approve(ctx, req, out)
	dr.remember(ctx, req, out.Report)
	if out.Held != nil {
		dr.remember(ctx, req, out.Held.Report)
	}
	if out.Allowed && out.Reason == outcome.ReasonApproved {
		drift.Approved(v1alpha1.RelationControllerChild)
	}
	dr.effects(req, out)
	return out, nil
}

// Panicked returns what a request is answered with after a panic, which it logs.
func (dr *Decider) Panicked(req *admission.Request, p any) *UndecidedError {
	dr.Log.Error(fmt.Errorf("panic: %v", p), "cannot decide", "stack", string(debug.Stack()))
	return &UndecidedError{Mode: expectedMode(dr, req), Err: fmt.Errorf("internal error: %v", p)}
}

// label of a request's kind in metrics. Any client that reaches the port can name
// kinds: those that are neither built in nor of a CRD share one (KR-13-07).
func label(dr *Decider, req *admission.Request) string {
	if dr.Evaluator.World.Kind(req.Kind) == (identity.Kind{}) && !scheme.Scheme.Recognizes(req.Kind) {
		return "unknown"
	}
	return req.Kind.Kind
}

// decideOn the object that a request is about.
func (dr *Decider) decideOn(ctx context.Context, in Incoming) (admission.Decision, error) {
	req := in.Request
	asStored := req.OldObject
	if req.Subresource == admission.SubresourceScale {
		gone, err := dr.scaling(ctx, in)
		if gone || err != nil {
			return admission.Decision{Answer: admission.Answer{Allowed: true, Mode: expectedMode(dr, req)}}, err
		}
	} else if err := stored.Known(ctx, dr.Cluster, req); err != nil {
		return admission.Decision{}, err
	} else if req.Operation == admission.Update && dr.Memory.Scales(req.OldObject.GetUID()) && changesDesired(req) {
		req.OldObject = dr.Memory.FillObject(req.OldObject, dr.Evaluator.World.Kind(req.Kind).Role)
	}
	if dr.Held != nil {
		req.Held = dr.Held.Held(req)
	}
	evaluator, err := dr.Evaluators(ctx, req.Namespace)
	if err != nil {
		return admission.Decision{}, err
	}
	if req.OldObject != nil {
		req.OldObject = dr.ClaimsKeys().TrustedIn(req.OldObject, req.Time) // KR-13-69
	}
	d, err := dr.decide(ctx, evaluator, req)
	if d.Unchanged { // what was filled in to decide is not stored
		d.Rest = asStored
	}
	if !req.DryRun { // nothing is stored of that, and a seal may be
		d.Annotations = dr.ClaimsKeys().SealIn(states.Sealed(req.Ref()), d.Annotations)
	}
	return d, err
}

// ClaimsKeys returns the keys that seal claims; none without a cluster.
func (dr *Decider) ClaimsKeys() *approval.Keys {
	if dr.Cluster == nil {
		return nil
	}
	return dr.Cluster.Claims
}

// decide a request and claim the approval that allows it (KR-05-33). If another request claimed it
// first, the request is decided again on the live parent.
func (dr *Decider) decide(ctx context.Context, evaluator *admission.Evaluator, req *admission.Request) (admission.Decision, error) {
	d, err := evaluator.Evaluate(ctx, req)
	for i := range maxClaimTries {
		if err != nil || !d.Allowed || d.Claim == nil && d.PolicyClaim == nil || req.DryRun {
			return d, err
		}
		if i == 0 {
			if err := stored.Verify(ctx, dr.Cluster, req); err != nil {
				return d, err
			}
		}
		if d.PolicyClaim != nil && dr.Policies == nil {
			return d, fmt.Errorf("cannot claim a rule of %s: this process has no policy store", d.PolicyClaim.Name)
		}
		if d.PolicyClaim != nil {
			lost, err := dr.Policies.Claim(ctx, *d.PolicyClaim, evaluator.Policies.Policies())
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
		err = dr.Cluster.States.TakeClaims(ctx, c.Holder, v1alpha1.ManagerWebhook, c.Stored, c.HasStored, c.Value)
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
func expectedMode(dr *Decider, req *admission.Request) v1alpha1.Mode {
	if dr.Evaluator.World.Removing() {
		return v1alpha1.ModeLog
	}
	if o := cmp.Or(req.OldObject, req.Object); o != nil {
		ref := parent.Ref{GroupVersionKind: req.Kind, Namespace: req.Namespace, Name: req.Name}
		if m := dr.Evaluator.World.Settings(ref, o.GetLabels()).Mode; m != "" {
			return m
		}
	}
	return dr.Evaluator.Options.DefaultMode
}
