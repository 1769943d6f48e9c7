package external

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	atProvider = "status.atProvider"
	// outputs of a run, which are compared one by one.
	outputs = "outputs"
	// maxOutputs that are recorded one by one; more of them are one value.
	maxOutputs = 32
)

// stateKeys are the ends of names, in lower case, of fields that identify the state that a run manages.
var stateKeys = []string{outputs, "serial", "lineage", "revision", "etag"}

// sourceKeys are the ends of names of fields that identify the source that the next run would apply. They change with
// the desired state, and are compared within one generation alone. Those of a state are stateKeys.
var sourceKeys = []string{"checksum", "digest", "hash", "fingerprint"}

// Shown returns the fields of status.atProvider that identify the external state, by their path below it; nil where
// spec.forProvider can be compared with it, and where there are no such fields. Other fields, such as times and
// phases, change although the external state is the same (KR-08-47).
func Shown(content map[string]any) map[string]any {
	have, ok := at(content, "status", "atProvider")
	if !ok || Comparable(content) {
		return nil
	}
	out := map[string]any{}
	shown(out, atProvider, have, 2)
	if len(out) == 0 {
		return nil
	}
	return out
}

// shown adds the fields of a map and of the maps within it, down to a depth.
func shown(out map[string]any, path string, have map[string]any, depth int) {
	for k, v := range have {
		p := change.Join(path, k)
		m, isMap := v.(map[string]any)
		switch {
		case identifies(k) && isMap && len(m) <= maxOutputs:
			for name, value := range m {
				out[change.Join(p, name)] = value
			}
		case identifies(k):
			out[p] = v
		case isMap && depth > 1:
			shown(out, p, m, depth-1)
		}
	}
}

func identifies(key string) bool {
	key = strings.ToLower(key)
	has := func(end string) bool { return strings.HasSuffix(key, end) }
	return slices.ContainsFunc(stateKeys, has) || slices.ContainsFunc(sourceKeys, has)
}

// ofSource reports whether the last field of a path identifies the source that the next run would apply.
func ofSource(path string) bool {
	if strings.Contains(strings.ToLower(path), "."+outputs) {
		return false
	}
	key := strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
	return !strings.HasPrefix(key, "state") && slices.ContainsFunc(sourceKeys, func(end string) bool { return strings.HasSuffix(key, end) })
}

// Digests returns the digests of the fields that are Shown, by path; nil where no field is.
func Digests(content map[string]any) map[string]string {
	var out map[string]string
	for p, v := range Shown(content) {
		if out == nil {
			out = map[string]string{}
		}
		out[p] = annotation.Digest(v, digestLength)
	}
	return out
}

// digestLength of a shown value, in digits.
const digestLength = 16

// moved returns the fields that show another external state than the one that the gate recorded after it closed. Old
// is the value that they show now. New refers to the recorded value, which is not known itself. It is nil while the
// gate is open for more than Delete, when the fields are expected to change.
func moved(content map[string]any) []change.Change {
	meta, _ := content["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any) // an object of another shape has no gate
	value, _ := annotations[v1alpha1.AnnotationKeyGate].(string)
	if !strings.Contains(value, `"observed"`) { // most gates: not parsed for every event
		return nil
	}
	var gate v1alpha1.Gate
	if json.Unmarshal([]byte(value), &gate) != nil || gate.Observed == nil {
		return nil
	}
	if gate.State == v1alpha1.GateOpen && slices.ContainsFunc(gate.Verbs, func(v v1alpha1.Verb) bool { return v != v1alpha1.VerbDelete }) {
		return nil
	}
	have := Shown(content)
	if have == nil { // a restarted provider may show nothing yet
		return nil
	}
	return since(gate.Observed, have, generation(meta))
}

// since returns the fields that an object with a generation shows otherwise than they were recorded.
func since(was *v1alpha1.GateObserved, have map[string]any, generation int64) []change.Change {
	var out []change.Change
	add := func(path string, c change.Change) {
		if c.Path = path; !ofSource(path) || was.Generation == generation {
			out = append(out, c)
		}
	}
	for p, v := range have {
		switch d, known := was.Digests[p]; {
		case !known:
			add(p, change.Change{Verb: change.Delete, Old: v})
		case d != annotation.Digest(v, digestLength):
			add(p, change.Change{Verb: change.Mutate, Old: v, New: recorded(d)})
		}
	}
	for p, d := range was.Digests {
		if _, ok := have[p]; !ok {
			add(p, change.Change{Verb: change.Insert, New: recorded(d)})
		}
	}
	return out
}

// recorded returns the text for a recorded value: only its digest is known.
func recorded(digest string) string { return "as when the gate closed (sha256 " + digest + "…)" }

// generation returns the generation of an object with metadata; 0 where it has none.
func generation(meta map[string]any) int64 {
	switch g := meta["generation"].(type) {
	case int64:
		return g
	case float64:
		return int64(g)
	}
	return 0
}

// IsShown reports whether a path is one of a field by which the provider shows the external state.
func IsShown(path string) bool { return change.Under(path, atProvider) }
