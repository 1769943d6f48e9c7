package fn

import (
	"fmt"
	"maps"
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// provenance passes the cause of a change to external systems: AWS tags and the
// environment of Terraform Workspaces (KR-08-43). It is added to the desired state
// before the decision, so that the same difference is decided, shown, approved and
// applied, here and in the webhook. It changes only together with another change.
func (r *run) provenance() {
	p := external.ProvenanceOf(trace.Current(r.composite.state), r.composite.state.Namespace)
	for _, res := range r.resources {
		if res.desired == nil || res.want == nil {
			continue
		}
		if c, ok := carrierOf(res, p); ok {
			r.carry(res, c)
		}
	}
}

// Fields below spec.forProvider that carry provenance.
const (
	fieldTags = "tags"
	fieldEnv  = "env"
)

// carrier is such a field of one resource.
type carrier struct {
	field string
	// with returns the field's value with what is known of provenance in it: as
	// observed, or anew where the change is accepted. nil for no field.
	with func(desired, observed any, accepted bool) (any, error)
	// ours reports whether a value of the field holds any provenance.
	ours func(value any) bool
}

// carrierOf a resource; ok is false where it has none, or something else stands
// in its place.
func carrierOf(res *resource, p external.Provenance) (c carrier, ok bool) {
	gk, wanted := res.desired.GroupVersionKind().GroupKind(), forProvider(res.desired)
	switch {
	case external.TakesTags(gk, wanted, forProvider(res.observed)):
		_, ok = wanted[fieldTags].(map[string]any)
		return carrier{fieldTags, withTags(p.Tags()), hasTags}, ok || wanted[fieldTags] == nil
	case external.TakesEnv(gk):
		_, ok = wanted[fieldEnv].([]any)
		return carrier{fieldEnv, withEnv(p.Env()), hasEnv}, ok || wanted[fieldEnv] == nil
	}
	return carrier{}, false
}

func withTags(next map[string]string) func(desired, observed any, accepted bool) (any, error) {
	return func(desired, observed any, accepted bool) (any, error) {
		d, _ := desired.(map[string]any)
		o, _ := observed.(map[string]any)
		tags, err := external.WithTags(d, o, next, accepted)
		switch {
		case tags != nil:
			return tags, err
		case desired != nil:
			return map[string]any{}, err
		}
		return nil, err
	}
}

func hasTags(value any) bool {
	tags, _ := value.(map[string]any)
	for _, k := range []string{external.TagTraceID, external.TagInitiator, external.TagOrigin} {
		if _, ok := tags[k]; ok {
			return true
		}
	}
	return false
}

func withEnv(next []external.Variable) func(desired, observed any, accepted bool) (any, error) {
	return func(desired, observed any, accepted bool) (any, error) {
		d, _ := desired.([]any)
		o, _ := observed.([]any)
		env := external.WithEnv(d, o, next, accepted)
		if env == nil && desired == nil {
			return nil, nil //nolint:nilnil // No field is no error.
		}
		return slices.Concat([]any{}, env), nil
	}
}

// hasEnv: what WithEnv would take out is ours.
func hasEnv(value any) bool {
	env, _ := value.([]any)
	return len(external.WithEnv(env, nil, nil, true)) < len(env)
}

// carry provenance in what is wanted of a resource. Where the Input no longer
// asks for it, what is there stays until the next change.
func (r *run) carry(res *resource, c carrier) {
	desired := forProvider(res.desired)[c.field]
	var observed any
	if res.observed != nil && !res.replaced {
		observed = forProvider(res.observed)[c.field]
	}
	on := c.field == fieldTags && r.cfg.tags || c.field == fieldEnv && r.cfg.env
	if !on && (c.ours(desired) || !c.ours(observed)) {
		return // nobody's, or an earlier Kausality step's
	}
	value, err := c.with(desired, observed, false)
	res.wantField(c.field, value)
	if res.operation == admission.Create || r.altered(res) {
		if value, err = desired, nil; on {
			value, err = c.with(desired, observed, true)
		}
		res.wantField(c.field, value)
	}
	if err != nil {
		res.notes = append(res.notes, fmt.Sprintf("no provenance: %v", err))
	}
}

// forProvider of an object; nil where there is none.
func forProvider(u *unstructured.Unstructured) map[string]any {
	if u == nil {
		return nil
	}
	return ssa.Child(ssa.Child(u.Object, "spec"), "forProvider")
}

// altered reports whether the apply would alter the desired state, the gate's
// mask left aside.
func (r *run) altered(res *resource) bool {
	return !change.Same(withoutPolicies(res.observed.Object), withoutPolicies(r.after(res, admission.Update).Object))
}

func withoutPolicies(content map[string]any) map[string]any {
	out := change.Desired(content)
	spec := map[string]any{}
	for k, v := range ssa.Child(content, "spec") {
		if k != "managementPolicies" {
			spec[k] = v
		}
	}
	out["spec"] = spec
	return out
}

// wantField sets a field below spec.forProvider of what is wanted; nil removes
// it. The request is not modified.
func (res *resource) wantField(field string, value any) {
	if value == nil && forProvider(res.desired)[field] == nil {
		return
	}
	spec := ssa.Child(res.desired.Object, "spec") // ours, see object
	to := ssa.Child(spec, "forProvider")
	if to == nil {
		return
	}
	out := maps.Clone(res.want.GetResource().GetFields())
	specOut := fieldsOf(out["spec"])
	toOut := fieldsOf(specOut["forProvider"])
	if value == nil {
		delete(to, field)
		delete(toOut, field)
	} else {
		to[field], toOut[field] = value, ssa.ToValue(value)
	}
	specOut["forProvider"] = ssa.StructOf(toOut)
	out["spec"] = ssa.StructOf(specOut)
	res.want = &fnv1.Resource{Resource: &structpb.Struct{Fields: out}, ConnectionDetails: res.want.GetConnectionDetails(), Ready: res.want.GetReady()}
}
