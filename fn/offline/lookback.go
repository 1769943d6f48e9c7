package offline

import (
	"encoding/json"
	"maps"
	"slices"

	kjson "sigs.k8s.io/json"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// MaxLookback is how many bytes are remembered of a composite. Of a larger one
// nothing is, and each field that is set counts as changed.
const MaxLookback = 8 * 1024

// settledField is a field of the composite that policies select, as it was when
// the composite last settled.
type settledField struct {
	// At are the names of the path, at most two; none for all of the desired state.
	At []string `json:"at"`
	// Was is its value; nil where it was not set.
	Was any `json:"was,omitempty"`
	// Moved reports that it had another value since, if only for a while: the
	// resources may have followed it.
	Moved bool `json:"moved,omitempty"`
}

// lookback determines which fields of the composite an intent changed, of those
// that policies select. A request shows the composite only as it is; how it was
// when it last settled is stored on one of its resources.
type lookback struct {
	// before are the stored fields; nil for none.
	before []settledField
	// now are the fields that policies select, as they are.
	now []settledField
	// settled reports that there is no intent whose allowances are not consumed.
	settled bool
}

// lookBack returns the fields of a composite now and when it last settled. content is the object as it
// is.
func (c *Composite) lookBack(content map[string]any, observed []*Resource, policies []*allowance.Compiled) lookback {
	out := lookback{settled: settling.Settled(c.State, c.Settled)}
	content = withoutMachinery(content)
	for _, at := range allowance.Looked(policies) {
		out.now = append(out.now, settledField{At: at, Was: get(content, at)})
	}
	for _, r := range observed {
		if v := r.Annotation(v1alpha1.AnnotationKeySettledFields); v != "" && out.before == nil {
			out.before = parseLookback(v)
		}
	}
	return out
}

// parseLookback reads the annotation; nil for what does not parse.
func parseLookback(value string) (out []settledField) {
	if kjson.UnmarshalCaseSensitivePreserveInts([]byte(value), &out) != nil {
		return nil
	}
	return out
}

// withoutMachinery returns the desired state of a composite without the fields that Crossplane writes.
func withoutMachinery(content map[string]any) map[string]any {
	out := change.Desired(content)
	spec := maps.Clone(ssa.Child(content, "spec"))
	if spec == nil {
		return out
	}
	_, modern := spec["crossplane"].(map[string]any)
	for k := range parent.Machinery(parent.RoleComposite, modern) {
		delete(spec, k)
	}
	out["spec"] = spec
	return out
}

// get returns the value at a path of at most two names; nil where it is not set.
func get(content map[string]any, at []string) any {
	var v any = content
	for _, name := range at {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// put sets the value at a path of at most two names (allowance.Looked); nil is not set.
func put(content map[string]any, at []string, value any) {
	m, isMap := value.(map[string]any)
	switch {
	case value == nil:
	case len(at) == 0 && isMap:
		maps.Copy(content, m)
	case len(at) == 1:
		content[at[0]] = value
	case len(at) == 2:
		inner := ssa.Child(content, at[0])
		if inner == nil {
			inner = map[string]any{}
			content[at[0]] = inner
		}
		inner[at[1]] = value
	}
}

// stored returns the stored field at a path; ok is false where it is not stored.
func (l lookback) stored(at []string) (f settledField, ok bool) {
	i := slices.IndexFunc(l.before, func(f settledField) bool { return slices.Equal(f.At, at) })
	if i < 0 {
		return f, false
	}
	return l.before[i], true
}

// details returns the details of the changes since the composite settled. A field that is not stored, or
// that has its value again, counts as changed where it is set.
func (l lookback) details() []change.Detail {
	before, now := map[string]any{}, map[string]any{}
	for _, f := range l.now {
		put(now, f.At, f.Was)
		if was, ok := l.stored(f.At); ok && (!was.Moved || !change.Same(was.Was, f.Was)) {
			put(before, f.At, was.Was)
		}
	}
	return change.Details(before, now, nil, true)
}

// object returns the object as it was, as far as it is stored: identity and fields. It is nil where
// nothing is stored.
func (l lookback) object(s *parent.State) map[string]any {
	if l.before == nil {
		return nil
	}
	out := identified(s.Ref)
	for _, f := range l.now {
		if was, ok := l.stored(f.At); ok {
			put(out, f.At, was.Was)
		}
	}
	return out
}

// identified returns an object with only its reference, where nothing else is known of it; nil for
// the empty reference.
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

// annotation returns the value of v1alpha1.AnnotationKeySettledFields from now on; "" for none. While
// an intent has not settled only Moved changes.
func (l lookback) annotation() string {
	next := l.now
	if !l.settled {
		next = nil
		for _, f := range l.now {
			if was, ok := l.stored(f.At); ok {
				was.Moved = was.Moved || !change.Same(was.Was, f.Was)
				next = append(next, was)
			}
		}
	}
	raw, err := json.Marshal(next)
	if err != nil || len(next) == 0 || len(raw) > MaxLookback {
		return ""
	}
	return string(raw)
}
