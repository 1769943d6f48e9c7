package admission

import (
	"fmt"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// keptFinalizer refuses to remove the finalizer by which a provider deletes the external
// resource, unless that is to be left behind (KR-13-53). A controller that may
// update the status may remove it, as providers do when they have finished.
func (ev *evaluation) keptFinalizer() (verdict, error) {
	req := ev.req
	if req.Operation != Update || req.Subresource != "" || !ev.kind.ManagementPolicies || req.Actor != ActorUnknown ||
		!parent.HasProviderFinalizer(req.OldObject) || parent.HasProviderFinalizer(req.Object) {
		return verdict{}, nil
	}
	if gating.Orphans(ev.policies.author, deletionPolicy(ev.policies.new)) ||
		identity.Annotation(req.Object, v1alpha1.AnnotationKeyDeletion) == v1alpha1.DeletionOrphan {
		return verdict{}, nil
	}
	if may, err := ev.mayUpdateStatus(ev.ctx, req.Ref()); may || err != nil {
		return verdict{}, err
	}
	r := refusal{code: 403, reason: ReasonExternalDeletion,
		why: "its provider deletes the external resource by the finalizer " + parent.ProviderFinalizer + ", which would be left behind without it",
		next: fmt.Sprintf("The provider removes the finalizer itself. To leave the external resource behind on purpose: kubectl annotate %s %s=%s, and try again.",
			identity.Target(req.Ref(), ev.kind), v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)}
	if ev.mode == v1alpha1.ModeLog {
		ev.warnings.add(ev.message(r))
		return verdict{}, nil
	}
	return ev.refuseAs(ClassNone, r), nil
}
