package decider

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/decider/stored"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/records"
)

// effects of a decision outside of the request path: what is recorded, counted and reported
// (KR-05-27).
func (dr *Decider) effects(req *admission.Request, d admission.Decision) {
	if dr.Records.Enabled() {
		dr.Records.Add(records.OfDecision(req, d))
	}
	dr.report(req, d.Report, d.Allowed, d.Allowed)
	if d.Held != nil {
		dr.report(req, d.Held.Report, true, false)
	}
	if !d.Allowed {
		return
	}
	if dr.Voted != nil && d.Annotations[v1alpha1.AnnotationKeyClaims] != nil {
		dr.Voted(req.Ref())
	}
	if d.Exception != nil && dr.Policies != nil {
		dr.Policies.Used(*d.Exception)
	}
	intent := d.Class != outcome.ClassNone && d.Class != outcome.ClassSelf
	switch {
	case req.Subresource == admission.SubresourceScale && d.Class != outcome.ClassNone:
		dr.Memory.Scale(req, d)
	case req.Operation == admission.Update && (intent || d.ChangesUserAnnotation):
		dr.Memory.Touch(req.OldObject)
	}
}

// report of a decision, or of what is held of a change that passes. logged: what the report is about passes as well.
func (dr *Decider) report(req *admission.Request, r *admission.Report, passes, logged bool) {
	if r == nil || dr.Reporter == nil {
		return
	}
	dr.Reporter.Enqueue(drift.Item{
		Report: r, Request: reportRequest(req), Stored: stored.Still(dr.Cluster, req, passes), Logged: logged,
	})
}

// reportRequest returns the request as it is in reports.
func reportRequest(req *admission.Request) *v1alpha1.ReportRequest {
	return &v1alpha1.ReportRequest{
		User: req.User.Name, Groups: req.User.Groups, UID: req.User.UID,
		FieldManager: req.FieldManager, Operation: string(req.Operation), DryRun: req.DryRun,
	}
}

// approve on behalf of a policy what the gate opens by approvals. On failure the caller, who was refused,
// retries, and the approval is written then.
func (dr *Decider) approve(ctx context.Context, req *admission.Request, d admission.Decision) {
	if d.Approve == nil {
		return
	}
	a := d.Approve
	err := stored.Verify(ctx, dr.Cluster, req)
	if errors.Is(err, stored.ErrNotStored) {
		return
	}
	if err == nil {
		err = give(ctx, dr, a)
	}
	if err != nil {
		dr.Log.Error(err, "cannot write the approval of a policy", "on", identity.Describe(a.Holder))
	}
}

// give an approval on behalf of a policy, with the claim that shows that Kausality gave it (KR-13-69).
func give(ctx context.Context, dr *Decider, a *outcome.ApproveEffect) error {
	o, err := dr.Cluster.States.Get(ctx, a.Holder, true)
	if err != nil {
		return err
	}
	after := approval.Written(o.Annotations, a.Key, a.Value)
	intent, _ := trace.Intent(o.State)
	edits := approval.Admit(after, o.Generation, intent.Generation, clock.Now(), nil, nil)
	edits[a.Key] = &a.Value
	return dr.Cluster.States.Apply(ctx, a.Holder, states.Patch{Manager: v1alpha1.ManagerWebhook, ResourceVersion: o.ResourceVersion, Annotations: edits})
}

// orphan marks what a policy leaves behind, before the deletion is allowed.
func orphan(ctx context.Context, dr *Decider, req *admission.Request, d admission.Decision) error {
	if !d.Allowed || len(d.Orphans) == 0 {
		return nil
	}
	if err := stored.Verify(ctx, dr.Cluster, req); err != nil {
		return fmt.Errorf("cannot mark what a policy leaves behind: %w", err)
	}
	return dr.Orphans.Write(ctx, req.Ref(), d.Orphans)
}

// Status answers a write of a status, which always passes: it returns the edits by which what the write changes of our metadata is as stored
// (KR-13-16), and the index of a condition to remove, -1 for none (KR-10-12). Who writes it is passed on (KR-02-04, KR-13-20). The request has
// both objects, and is not modified.
func (dr *Decider) Status(ctx context.Context, req *admission.Request) (d admission.Decision, drop int) {
	defer func() {
		if p := recover(); p != nil {
			dr.Log.Error(fmt.Errorf("panic: %v", p), "cannot restore the metadata of a status write", "stack", string(debug.Stack()))
			d, drop = admission.Decision{Answer: admission.Answer{Allowed: true}}, -1
		}
	}()
	if err := Known(ctx, dr); err != nil {
		dr.Log.Error(err, "cannot note the writer of a status", "kind", req.Kind.String(), "namespace", req.Namespace, "name", req.Name)
	} else {
		noteStatus(dr, req)
	}
	return admission.KeepMetadata(req), dr.dropCondition(ctx, req)
}

// Known waits until this replica knows kinds and modes, at most a second; the error has what it does not (KR-13-76).
func Known(ctx context.Context, dr *Decider) error {
	if dr.Cluster == nil {
		return nil
	}
	return cluster.Await(ctx, dr.Cluster)
}

// noteStatus passes on who writes a status.
func noteStatus(dr *Decider, req *admission.Request) {
	defer func() {
		if p := recover(); p != nil {
			dr.Log.Error(fmt.Errorf("panic: %v", p), "cannot note the writer of a status", "stack", string(debug.Stack()))
		}
	}()
	if !req.DryRun && dr.StatusReviewed != nil && ofController(dr, req) {
		dr.StatusReviewed(req)
	}
}

// ofController reports whether the writer of a status counts: for Crossplane's kinds, only a user that
// may be their controller (KR-13-62). Another machine that writes one is logged once a day: it may be a provider that runs elsewhere.
func ofController(dr *Decider, req *admission.Request) bool {
	role, user := dr.Evaluator.World.Kind(req.Kind).Role, req.User
	if !role.Crossplane() || dr.Evaluator.World.MayControl(user, role) {
		return true
	}
	if _, logged := dr.Unrecognized.Get(user.Name); user.IsMachine() && !logged {
		dr.Unrecognized.Add(user.Name, true, unrecognizedAgain)
		dr.Log.Info("Ignoring the status write of a user that may not be a controller; the Namespace of a provider must be in --controller-namespaces",
			"user", user.Name, "kind", req.Kind.Kind, "namespace", req.Namespace, "name", req.Name)
	}
	return false
}

const (
	// maxUnrecognized are remembered, so that each is logged once in unrecognizedAgain.
	maxUnrecognized   = 256
	unrecognizedAgain = 24 * time.Hour
)
