package drift

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// HomeNamespace holds the Drifts of cluster-scoped objects.
	HomeNamespace = "kausality-system"
	// maxObject is the size of the largest object in a report, in bytes.
	maxObject = 256 << 10
)

// object is the Drift of a report: in the namespace of the parent, else of the child, else in
// HomeNamespace, and owned by the parent (KR-10-01).
func object(r *admission.Report) *v1alpha1.Drift {
	d := &v1alpha1.Drift{Spec: r.Drift}
	d.Name, d.Namespace = r.Drift.ID, r.ParentRef.Namespace
	if d.Namespace == "" {
		d.Namespace = r.Drift.Child.Namespace
	}
	if d.Namespace == "" {
		d.Namespace = HomeNamespace
	}
	if p := r.ParentRef; p.UID != "" {
		apiVersion, kind := p.ToAPIVersionAndKind()
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: p.Name, UID: p.UID}}
	}
	return d
}

// detected is the report of an item. lifecycle is the phase of its parent; empty without one.
func detected(i Item, lifecycle v1alpha1.Phase) v1alpha1.DriftReport {
	out := reportOf(i.Report.Drift, v1alpha1.DriftDetected)
	out.Spec.Request = i.Request
	if p := i.Report.Parent; p != nil {
		out.Spec.Parent.ObservedGeneration, out.Spec.Parent.ControllerManager = p.ObservedGeneration, p.Manager
		out.Spec.Parent.LifecyclePhase = lifecyclePhases[lifecycle]
	}
	if raw := redact(i.Old, i.Report.Secrets); raw != nil {
		out.Spec.OldObject = raw
	}
	if raw := redact(i.New, i.Report.Secrets); raw != nil {
		out.Spec.NewObject = *raw
	} else if out.Spec.OldObject != nil {
		out.Spec.NewObject = *out.Spec.OldObject
	}
	return out
}

// resolved is the report that a Drift is over; why is a clause for users.
func resolved(d *v1alpha1.Drift, why string) v1alpha1.DriftReport {
	out := reportOf(d.Spec, v1alpha1.DriftResolved)
	out.Spec.Resolution = why
	return out
}

// reportOf a drift: what its Drift object and all of its reports have in common.
func reportOf(d v1alpha1.DriftSpec, phase v1alpha1.DriftPhase) v1alpha1.DriftReport {
	out := v1alpha1.DriftReport{Spec: v1alpha1.DriftReportSpec{
		ID: d.ID, Phase: phase, Relation: d.Relation, Child: v1alpha1.ReportChild{ObjectReference: d.Child},
		Parent: v1alpha1.ReportParent{ObjectReference: d.Parent}, Difference: d.Difference, Cause: d.Cause, Causes: d.Causes,
		SuggestedApproval: d.SuggestedApproval,
	}}
	out.APIVersion, out.Kind = v1alpha1.GroupVersion.String(), "DriftReport"
	return out
}

// lifecyclePhases are the phases as reports spell them.
var lifecyclePhases = map[v1alpha1.Phase]string{
	v1alpha1.PhaseInitializing: "Initializing",
	v1alpha1.PhaseInitialized:  "Initialized",
	v1alpha1.PhaseDeleting:     "Deleting",
}

// redact an object for a report: it has no managedFields and no secret values (KR-13-01, KR-13-26).
// nil for nil, and for an object that is too large to send.
func redact(o *unstructured.Unstructured, secrets change.SecretFields) *runtime.RawExtension {
	if o == nil {
		return nil
	}
	c := &unstructured.Unstructured{Object: maps.Clone(secrets.RedactObject(o.Object))}
	if metadata, ok := c.Object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		c.Object["metadata"] = metadata
	}
	raw, err := json.Marshal(c.Object)
	if err != nil || len(raw) > maxObject {
		return nil
	}
	return &runtime.RawExtension{Raw: raw}
}
