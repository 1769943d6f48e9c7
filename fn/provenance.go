package fn

import (
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// keepCauses keeps what is observed of the causes that resources carry to the outside (KR-08-43). The decision about a resource changes it, where the
// change reaches the external resource. Where the Input does not configure it any more, it stays until then.
func (r *run) keepCauses() {
	for _, res := range r.resources {
		if res.desired == nil || res.want == nil {
			continue
		}
		f, wanted, stored := res.carries()
		if f.Name == "" {
			continue
		}
		brings := len(f.Taken(wanted)) > 0
		leaves := brings && r.cfg.mode == v1alpha1.ModeLog && !slices.Contains(r.cfg.provenance, f.Provenance)
		if leaves || !brings && len(f.Taken(stored)) == 0 {
			continue // nothing of a Composition is changed in mode log
		}
		value, err := f.With(wanted, f.Taken(stored))
		if err == nil {
			res.setField(f.Name, value)
		}
	}
}

// writeCause writes what the decision about a resource has it carry.
func (r *run) writeCause(res *resource) {
	f, _, _ := res.carries()
	value, ok := res.decision.Fields[change.Pointer("spec", "forProvider", f.Name)]
	if !ok || !res.decision.Allowed {
		return
	}
	composed := r.req.GetDesired().GetResources()[res.name].GetResource()
	if ssa.Child(ssa.Child(ssa.Object(composed), "spec"), "forProvider")[f.Name] == nil && f.Without(value) == nil && len(f.Taken(value)) == 0 {
		value = nil // the Composition has no such field
	}
	res.setField(f.Name, value)
}

// allow writes what the function opens the gate of a Workspace for into what is emitted. Its message and the top level of its object are
// modified.
func (r *run) allow(res *resource, out *fnv1.Resource, set map[string]string) {
	f, _, _ := res.carries()
	stored := map[string]string{v1alpha1.AnnotationKeyGate: res.observed.Annotation(v1alpha1.AnnotationKeyGate)}
	gate, opened := mask.Opened(stored, set)
	if !opened || f.Provenance != v1alpha1.ProvenanceTerraformEnv || !slices.Contains(r.cfg.provenance, f.Provenance) {
		return
	}
	state := parent.Sum(res.desired, parent.RoleManaged)
	until := gating.LastEndOf(gate, gating.DeadlineOf(r.policies.Settings(state.Ref, state.Labels), gating.Defaults{}))
	value, err := carry.Open(res.desired.GroupVersionKind().GroupKind(), carry.ForProvider(ssa.Object(out.GetResource())), gate, until, res.changes())
	if err == nil && value != nil {
		out.Resource = withField(out, f.Name, ssa.ToValue(value)).GetResource()
	}
}

// carries returns the field that carries the cause of a resource, with its wanted and its observed value.
func (res *resource) carries() (f carry.Field, wanted, stored any) {
	if res.desired == nil {
		return f, nil, nil
	}
	var observed map[string]any
	if !res.replaced && res.observed != nil {
		observed = carry.ForProvider(res.observed.Object)
	}
	of := carry.ForProvider(res.desired.Object)
	f = carry.Of(res.desired.GroupVersionKind().GroupKind(), of, observed)
	return f, of[f.Name], observed[f.Name]
}

// setField sets a field below spec.forProvider of what is wanted, in the message and
// in its content; nil removes it. The request is not modified.
func (res *resource) setField(name string, value any) {
	to := carry.ForProvider(res.desired.Object)
	if to == nil || value == nil && to[name] == nil {
		return
	}
	var v *structpb.Value
	if to[name] = value; value == nil {
		delete(to, name)
	} else {
		v = ssa.ToValue(value)
	}
	res.want = withField(res.want, name, v)
	if res.rest != nil {
		res.rest = withField(res.rest, name, v)
	}
}

func withField(r *fnv1.Resource, name string, v *structpb.Value) *fnv1.Resource {
	content := &structpb.Struct{Fields: ssa.With(r.GetResource().GetFields(), v, "spec", "forProvider", name)}
	return &fnv1.Resource{Resource: content, ConnectionDetails: r.GetConnectionDetails(), Ready: r.GetReady()}
}
