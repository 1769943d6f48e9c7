package fn

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// held is the observed resource as the pipeline composed it before: applying
// that changes nothing (KR-09-04, KR-09-06).
func (r *run) held(res *resource) *fnv1.Resource {
	var shape map[string]any
	if res.desired != nil && !res.replaced {
		shape = res.desired.Object
	}
	content := ssa.Restrict(res.is, shape, res.owned)
	if !r.cfg.managed {
		restorePolicies(content, res.annotation(v1alpha1.AnnotationKeyManagementPolicies))
	}
	out := &fnv1.Resource{Resource: content, Ready: res.want.GetReady(), ConnectionDetails: res.want.GetConnectionDetails()}
	if out.Ready == fnv1.Ready_READY_UNSPECIFIED && res.ready() {
		out.Ready = fnv1.Ready_READY_TRUE
	}
	return out
}

// heldAnnotation says on the resource itself what is held of it; "" for
// nothing. The apply takes it away once nothing is (KR-09-05).
func (r *run) heldAnnotation(res *resource) string {
	if !res.refused() {
		if res.desired == nil || r.earlier.reason == v1alpha1.ConditionReasonAllowed {
			return ""
		}
		// An earlier Kausality step of the pipeline held it: its word stands.
		return ssa.Text(ssa.Child(ssa.Child(res.desired.Object, "metadata"), "annotations"), v1alpha1.AnnotationKeyHeld)
	}
	d := &res.decision
	held := &v1alpha1.Held{Reason: string(d.Reason), Operation: string(res.operation), ID: d.ID, Approve: d.Suggestion}
	if res.operation == admission.Update {
		held.Paths = change.Paths(d.Changes[:min(len(d.Changes), v1alpha1.MaxHeldPaths)])
	}
	r.scratch.Reset()
	if err := json.NewEncoder(&r.scratch).Encode(held); err != nil {
		return "" // strings always marshal
	}
	return string(bytes.TrimSuffix(r.scratch.Bytes(), []byte("\n")))
}

// creations that are held: by this step, and by earlier Kausality steps of the
// pipeline, of which nothing is left in the desired state. Sorted by resource, at
// most v1alpha1.MaxHeldCreations.
func (r *run) creations() []v1alpha1.HeldCreation {
	out := slices.Clone(r.earlier.creations)
	for _, res := range r.resources {
		if !res.refused() || res.observed != nil {
			continue
		}
		d, o := &res.decision, res.after
		out = append(out, v1alpha1.HeldCreation{
			Resource: res.name, APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(),
			Reason: string(d.Reason), ID: d.ID, Approve: d.Suggestion,
		})
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.HeldCreation) int { return strings.Compare(a.Resource, b.Resource) })
	return out[:min(len(out), v1alpha1.MaxHeldCreations)]
}

// creationsString is the value of v1alpha1.AnnotationKeyHeldCreations; "" for none.
func creationsString(list []v1alpha1.HeldCreation) string {
	raw, err := json.Marshal(list)
	if err != nil || len(list) == 0 {
		return "" // strings always marshal
	}
	return string(raw)
}

// parseCreations is the reverse of creationsString; nil for what does not parse.
func parseCreations(value string) (out []v1alpha1.HeldCreation) {
	if value == "" || json.Unmarshal([]byte(value), &out) != nil {
		return nil
	}
	return out
}

// restorePolicies emits what the author wrote, not the gate's mask, where the
// pipeline composes the field. The top level of content alone is modified.
func restorePolicies(content *structpb.Struct, remembered string) {
	author, ok := mask.ParseAuthor(remembered)
	if _, has := content.GetFields()["spec"].GetStructValue().GetFields()["managementPolicies"]; ok && has {
		setPolicies(content, author)
	}
}

// ready as observed: by the Ready condition, or for kinds without one by what
// kstatus says.
func (res *resource) ready() bool {
	for _, e := range res.is.GetFields()["status"].GetStructValue().GetFields()["conditions"].GetListValue().GetValues() {
		if c := e.GetStructValue().GetFields(); c["type"].GetStringValue() == "Ready" {
			return c["status"].GetStringValue() == "True"
		}
	}
	return res.state().Converged
}
