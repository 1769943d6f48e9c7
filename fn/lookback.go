package fn

import (
	"encoding/json"
	"slices"

	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/fn/ssa"

	kjson "sigs.k8s.io/json"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxLookback is how many bytes are remembered of a composite. Of a larger one
// nothing is, and each field that is there counts as changed.
const maxLookback = 8 * 1024

// settledField is a field of the composite that policies look at, as it was when
// the composite last settled.
type settledField struct {
	// At are the names that lead there; none for all of the desired state.
	At []string `json:"at"`
	// Was is its value; nil where it was not there.
	Was any `json:"was,omitempty"`
	// Moved since, if only for a while: the resources may have followed.
	Moved bool `json:"moved,omitempty"`
}

// lookback is what tells which fields of the composite an intent changed: what
// policies look at, remembered from when it last settled. A request shows the
// composite only as it is.
type lookback struct {
	// before are the fields as remembered; nil where nothing is.
	before []settledField
	// now are those that policies look at, as they are.
	now []settledField
	// settled: there is no intent whose allowances are not consumed.
	settled bool
}

// lookBack at the composite, as the policies of its kind do.
func (r *run) lookBack(policies []*allowance.Compiled) lookback {
	out := lookback{settled: settling.Settled(r.composite.state, r.composite.settled)}
	content := withoutCrossplanes(r.world.object)
	for _, at := range allowance.Looked(policies) {
		out.now = append(out.now, settledField{At: at, Was: under(content, at)})
	}
	for _, res := range r.resources {
		if v := res.annotation(v1alpha1.AnnotationKeySettledFields); v != "" && out.before == nil {
			out.before = parseLookback(v)
		}
	}
	return out
}

// parseLookback reads the annotation; what does not parse is nothing.
func parseLookback(value string) (out []settledField) {
	if kjson.UnmarshalCaseSensitivePreserveInts([]byte(value), &out) != nil {
		return nil
	}
	return out
}

// withoutCrossplanes is the desired state of a composite without what Crossplane
// writes there.
func withoutCrossplanes(content map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range change.Desired(content) {
		out[k] = v
	}
	spec := ssa.Child(content, "spec")
	if spec == nil {
		return out
	}
	_, modern := spec["crossplane"].(map[string]any)
	machinery := parent.Machinery(parent.RoleComposite, modern)
	kept := make(map[string]any, len(spec))
	for k, v := range spec {
		if !machinery[k] {
			kept[k] = v
		}
	}
	out["spec"] = kept
	return out
}

// under a path of at most two names; nil where nothing is.
func under(content map[string]any, at []string) any {
	var v any = content
	for _, name := range at {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// put a value under a path of at most two names; nil is nothing.
func put(content map[string]any, at []string, value any) {
	m, isMap := value.(map[string]any)
	switch {
	case value == nil:
	case len(at) == 0 && isMap:
		for k, v := range m {
			content[k] = v
		}
	case len(at) == 1:
		content[at[0]] = value
	case len(at) == 2: // no longer ones, see allowance.Looked
		inner := ssa.Child(content, at[0])
		if inner == nil {
			inner = map[string]any{}
			content[at[0]] = inner
		}
		inner[at[1]] = value
	}
}

// of a remembered field; ok is false where it is not.
func (l lookback) of(at []string) (settledField, bool) {
	i := slices.IndexFunc(l.before, func(f settledField) bool { return slices.Equal(f.At, at) })
	if i < 0 {
		return settledField{}, false
	}
	return l.before[i], true
}

func equal(a, b any) bool {
	return change.Same(a, b)
}

// details of the changes since the composite settled. What is not remembered, or
// came back to what it was, counts as changed where it is there.
func (l lookback) details() []change.Detail {
	before, now := map[string]any{}, map[string]any{}
	for _, f := range l.now {
		put(now, f.At, f.Was)
		if was, ok := l.of(f.At); ok && (!was.Moved || !equal(was.Was, f.Was)) {
			put(before, f.At, was.Was)
		}
	}
	return change.Details(before, now, nil, true)
}

// object as it was, as far as it is remembered: identity and fields. nil where
// nothing is.
func (l lookback) object(s *parent.State) map[string]any {
	if l.before == nil {
		return nil
	}
	out := identified(s.Ref)
	for _, f := range l.now {
		if was, ok := l.of(f.At); ok {
			put(out, f.At, was.Was)
		}
	}
	return out
}

// identified is an object of which no more is known; nil for none.
func identified(ref parent.Ref) map[string]any {
	if ref.Name == "" {
		return nil
	}
	apiVersion, kind := ref.ToAPIVersionAndKind()
	metadata := map[string]any{"name": ref.Name}
	if ref.Namespace != "" {
		metadata["namespace"] = ref.Namespace
	}
	if ref.UID != "" {
		metadata["uid"] = string(ref.UID)
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
}

// value of the annotation from now on; "" for none. While an intent has not
// settled it stays as it is, but for what moved.
func (l lookback) value() string {
	next := l.now
	if !l.settled {
		next = nil
		for _, f := range l.now {
			if was, ok := l.of(f.At); ok {
				was.Moved = was.Moved || !equal(was.Was, f.Was)
				next = append(next, was)
			}
		}
	}
	raw, err := json.Marshal(next)
	if err != nil || len(next) == 0 || len(raw) > maxLookback {
		return ""
	}
	return string(raw)
}

// store what is remembered of the composite on one of its resources, since the
// function cannot write to the composite itself. The settled intent is stored
// where the trace that the resource carries does not show it.
func (r *run) store(set map[string]string, carried trace.Trace) {
	settled := r.composite.lastSettled()
	if n := len(carried); n > 1 && carried[n-2].Settled && noteOf(carried[n-2]) == settled {
		settled = note{}
	}
	for k, v := range map[string]string{
		v1alpha1.AnnotationKeySettledFields: r.remembered,
		v1alpha1.AnnotationKeySettledIntent: settled.annotation(),
		v1alpha1.AnnotationKeyHeldCreations: creationsString(r.creations()),
	} {
		if v != "" {
			set[k] = v
		}
	}
}

// rememberer is the resource that remembers for the composite: the first that is
// there and stays. nil for none.
func (r *run) rememberer() *resource {
	for _, res := range r.resources {
		if res.observed == nil || res.observed.GetDeletionTimestamp() != nil {
			continue
		}
		if res.refused() || res.want != nil && res.decided && !res.replaced {
			return res
		}
	}
	return nil
}
