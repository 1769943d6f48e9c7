package fn

import (
	"fmt"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		if c, ok := r.carrierOf(res, p); ok {
			r.carry(res, c)
		}
	}
}

// carrier is a field below spec.forProvider that records provenance.
type carrier struct {
	field string
	// on: the Input configures it.
	on bool
	// with returns the field's value with provenance in it: as observed, or as of now
	// where the change is accepted. nil is no field.
	with func(desired, observed any, accepted bool) (any, error)
	// ours reports whether a value of the field has provenance in it.
	ours func(value any) bool
}

// carrierOf returns the field of a resource that carries its provenance; ok is false where it has none,
// or its field has another type.
func (r *run) carrierOf(res *resource, p external.Provenance) (c carrier, ok bool) {
	gk, wanted := kindOf(res.desired), forProvider(res.desired)
	switch {
	case external.TakesTags(gk, wanted, forProvider(res.current())):
		c = carrier{"tags", r.cfg.tags, carry.WithTags(p.Tags()), carry.HasTags}
		ok = ssa.Child(wanted, c.field) != nil
	case external.TakesEnv(gk):
		c = carrier{"env", r.cfg.env, carry.WithEnv(p.Env()), carry.HasEnv}
		_, ok = wanted[c.field].([]any)
	default:
		return c, false
	}
	return c, ok || wanted[c.field] == nil
}

// carry writes the provenance into what is wanted of a resource. Where the Input does not configure it
// any more, what is observed stays until the next change.
func (r *run) carry(res *resource, c carrier) {
	desired := forProvider(res.desired)[c.field]
	var observed any
	if !res.replaced {
		observed = forProvider(res.current())[c.field]
	}
	if !c.on && (c.ours(desired) || !c.ours(observed)) {
		return // there is none, or an earlier Kausality step wants it
	}
	value, err := c.with(desired, observed, false)
	res.setField(c.field, value)
	if res.operation == admission.Create || r.altered(res) {
		if value, err = desired, nil; c.on {
			value, err = c.with(desired, observed, true)
		}
		res.setField(c.field, value)
	}
	if err != nil {
		res.notes = append(res.notes, fmt.Sprintf("no provenance: %v", err))
	}
}

// forProvider returns spec.forProvider of an object; nil where it is not set.
func forProvider(u *unstructured.Unstructured) map[string]any {
	if u == nil {
		return nil
	}
	return ssa.Child(ssa.Child(u.Object, "spec"), "forProvider")
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
	to := forProvider(res.desired)
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
