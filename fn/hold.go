package fn

import (
	"slices"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/results"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// held returns the observed resource as the pipeline composed it before, so that applying it changes
// nothing (KR-09-04).
func (r *run) held(res *resource) *fnv1.Resource {
	var shape map[string]any
	if res.desired != nil && !res.replaced {
		shape = res.desired.Object
	}
	content := ssa.Restrict(res.observed.Message, shape, res.observed.Owned)
	if !r.cfg.managed {
		// The mask is the gate's: the pipeline composed the author's value.
		author, masked := mask.ParseAuthor(res.observed.Annotation(v1alpha1.AnnotationKeyManagementPolicies))
		if masked && content.GetFields()["spec"].GetStructValue().GetFields()[mask.FieldManagementPolicies] != nil {
			setPolicies(content, author)
		}
	}
	out := &fnv1.Resource{Resource: content, Ready: res.want.GetReady(), ConnectionDetails: res.want.GetConnectionDetails()}
	if out.Ready == fnv1.Ready_READY_UNSPECIFIED && res.ready() {
		out.Ready = fnv1.Ready_READY_TRUE
	}
	return out
}

// heldAnnotation returns the value of v1alpha1.AnnotationKeyHeld; "" for none. The apply removes the
// annotation once nothing is held (KR-09-05).
func (r *run) heldAnnotation(res *resource) string {
	d := res.holding()
	switch {
	case d != nil:
		held := &v1alpha1.Held{
			Reason: string(d.Reason), Operation: string(res.operation), ID: d.Digest.ID(), Digest: d.Digest.Whole(), Approve: d.Suggestion,
			Lacks: d.Lacks, Before: d.Before, HeldDrift: d.Drift.Drift(),
		}
		if res.operation == admission.Update {
			changes := d.Changes[:min(len(d.Changes), v1alpha1.MaxHeldPaths)]
			held.Paths, held.Difference, held.Causes = change.Paths(changes), results.Values(changes), results.Edits(d.Causes)
		}
		return annotation.MustMarshal(held)
	case res.desired != nil && r.earlier.reason != v1alpha1.ConditionReasonAllowed:
		// An earlier Kausality step of the pipeline may have held it.
		return ssa.AnnotationOf(res.desired.Object, v1alpha1.AnnotationKeyHeld)
	}
	return ""
}

// creations returns the creations that are held: by this step, and by earlier Kausality steps of the
// pipeline, which leave nothing of them in the desired state. They are sorted by resource, at most
// v1alpha1.MaxHeldCreations.
func (r *run) creations() []v1alpha1.HeldCreation {
	out := slices.Clone(r.earlier.creations)
	for _, res := range r.resources {
		if !res.refused() || res.observed != nil {
			continue
		}
		d, o := &res.decision, res.after
		out = append(out, v1alpha1.HeldCreation{
			Resource: res.name, APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
			Reason: string(d.Reason), ID: d.Digest.ID(), Digest: d.Digest.Whole(), Approve: d.Suggestion, Lacks: d.Lacks, Before: d.Before, HeldDrift: d.Drift.Drift(),
		})
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.HeldCreation) int { return strings.Compare(a.Resource, b.Resource) })
	return out[:min(len(out), v1alpha1.MaxHeldCreations)]
}

// ready reports whether the resource is observed as ready: by the Ready condition, or by kstatus for
// a kind without one. It reads the message, since converting the status takes longer than all the
// rest.
func (res *resource) ready() bool {
	status := res.observed.Message.GetFields()["status"].GetStructValue()
	for _, e := range status.GetFields()["conditions"].GetListValue().GetValues() {
		if c := e.GetStructValue().GetFields(); c["type"].GetStringValue() == "Ready" {
			return c["status"].GetStringValue() == "True"
		}
	}
	return res.observed.State().Converged
}
