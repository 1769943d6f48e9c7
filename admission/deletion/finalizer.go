package deletion

import (
	"context"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// KeepFinalizer refuses to remove the finalizer by which a provider deletes the external resource, unless the
// external resource is to be left behind (KR-13-53). A controller that may update the status may remove it, as
// providers do when they have finished.
func KeepFinalizer(ctx context.Context, f *facts.Facts, w *outcome.Warnings) (*outcome.Verdict, error) {
	req := f.Req
	if req.Operation != request.Update || req.Subresource != "" || !f.Kind.ManagementPolicies || req.Actor != request.ActorUnknown ||
		!parent.HasProviderFinalizer(req.OldObject) || parent.HasProviderFinalizer(req.Object) {
		return nil, nil
	}
	if gating.Orphans(f.Desired.Author, facts.DeletionPolicy(f.Desired.New)) ||
		identity.Annotation(req.Object, v1alpha1.AnnotationKeyDeletion) == v1alpha1.DeletionOrphan {
		return nil, nil
	}
	if may, err := actor.MayUpdateStatus(ctx, f, req.Ref(), f.Kind.Role); may || err != nil {
		return nil, err
	}
	r := outcome.Refusal{Code: 403, Reason: outcome.ReasonExternalDeletion,
		Why: "its provider deletes the external resource by the finalizer " + parent.ProviderFinalizer + ", which would be left behind without it",
		Next: fmt.Sprintf("The provider removes the finalizer itself. To leave the external resource behind on purpose: kubectl annotate %s %s=%s, and try again.",
			identity.Target(req.Ref(), f.Kind), v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)}
	if f.Mode == v1alpha1.ModeLog {
		w.Add(outcome.Message(f, r))
		return nil, nil
	}
	return outcome.Refuse(f, outcome.ClassNone, r), nil
}
