package fn

import (
	"fmt"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/fn/carry"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// provenance records the cause of a change in external systems: in AWS tags and in
// the environment of Terraform Workspaces (KR-08-43). It is added to the desired
// state before the decision, so that the function and the webhook decide about, show
// and approve the same difference. It changes only together with another field.
func (r *run) provenance() {
	p := external.ProvenanceOf(trace.Current(r.composite.State), r.composite.State.Namespace)
	for _, res := range r.resources {
		if res.desired == nil || res.want == nil {
			continue
		}
		if c, ok := carry.Of(res.desired, res.current(), p, carry.Fields{Tags: r.cfg.tags, Env: r.cfg.env}); ok {
			r.carry(res, c)
		}
	}
}

// carry writes the provenance into what is wanted of a resource. Where the Input does not configure it
// any more, what is observed stays until the next change.
func (r *run) carry(res *resource, c carry.Field) {
	desired := carry.ForProvider(res.desired)[c.Name]
	var observed any
	if !res.replaced {
		observed = carry.ForProvider(res.current())[c.Name]
	}
	if !c.On && (c.Ours(desired) || !c.Ours(observed)) {
		return // there is none, or an earlier Kausality step wants it
	}
	value, err := c.With(desired, observed, false)
	res.setField(c.Name, value)
	if res.operation == admission.Create || r.altered(res) {
		if value, err = desired, nil; c.On {
			value, err = c.With(desired, observed, true)
		}
		res.setField(c.Name, value)
	}
	if err != nil {
		res.notes = append(res.notes, fmt.Sprintf("no provenance: %v", err))
	}
}

// altered reports whether the apply would change the desired state, apart from the
// gate's mask.
func (r *run) altered(res *resource) bool {
	return !change.Same(withoutPolicies(res.observed.Object), withoutPolicies(r.after(res, admission.Update).Object))
}

func withoutPolicies(content map[string]any) map[string]any {
	out := change.Desired(content)
	spec := map[string]any{}
	for k, v := range ssa.Child(content, "spec") {
		if k != mask.FieldManagementPolicies {
			spec[k] = v
		}
	}
	out["spec"] = spec
	return out
}

// setField sets a field below spec.forProvider of what is wanted, in the message and
// in its content; nil removes it. The request is not modified.
func (res *resource) setField(name string, value any) {
	to := carry.ForProvider(res.desired)
	if to == nil || value == nil && to[name] == nil {
		return
	}
	var v *structpb.Value
	if to[name] = value; value == nil {
		delete(to, name)
	} else {
		v = ssa.ToValue(value)
	}
	content := &structpb.Struct{Fields: ssa.With(res.want.GetResource().GetFields(), v, "spec", "forProvider", name)}
	res.want = &fnv1.Resource{Resource: content, ConnectionDetails: res.want.GetConnectionDetails(), Ready: res.want.GetReady()}
}
