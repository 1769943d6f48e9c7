package parent

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// isDesired reports whether a field of an object, by its name, is one of the
// desired state (KR-01-11).
func isDesired(name string) bool {
	switch name {
	case "apiVersion", "kind", "metadata", "status":
		return false
	}
	return true
}

// stored makes the bytes that are hashed those of encoding/json: digests are stored on objects, and compared with those of other releases.
var stored = jsonv1.DefaultOptionsV1()

// digest returns a hash of the desired state of an object without what Crossplane writes into it. The
// object itself is part of it, and the version it was read in: a digest that a controller copies from
// one object to another, or that of a converted object, does not match. It is 0 where it cannot be
// computed.
func digest(o *unstructured.Unstructured, role Role) uint64 {
	desired := make(map[string]any, 1)
	for k, v := range o.Object {
		if isDesired(k) {
			desired[k] = v
		}
	}
	machinery := Machinery(role, modern(o))
	if spec, ok := desired["spec"].(map[string]any); ok && len(machinery) > 0 {
		spec = maps.Clone(spec)
		maps.DeleteFunc(spec, func(k string, _ any) bool { return machinery[k] })
		desired["spec"] = spec
		if len(spec) == 0 { // it comes and goes with the machinery
			delete(desired, "spec")
		}
	}
	sum := sha256.New()
	if err := json.MarshalWrite(sum, []any{string(o.GetUID()), o.GetAPIVersion(), o.GetKind(), desired}, stored); err != nil {
		return 0 // not JSON types: then nothing is known
	}
	return binary.BigEndian.Uint64(sum.Sum(nil))
}

// SettledState returns what to store of the desired state as AnnotationKeySettledState, where it is
// the one of an intent generation that settled; "" for nothing.
func (s *State) SettledState(generation int64) string {
	if s.Desired == 0 || generation <= 0 {
		return ""
	}
	return fmt.Sprintf("%d,%016x", generation, s.Desired)
}

// HasSettledState reports whether a state is stored for an intent generation,
// whichever.
func (s *State) HasSettledState(generation int64) bool {
	of, _, ok := strings.Cut(s.Annotations[v1alpha1.AnnotationKeySettledState], ",")
	return ok && of == fmt.Sprint(generation)
}

// SettledOtherwise reports whether a composite or Claim settled at an intent generation
// with another desired state than it has now: whatever the times in managedFields are,
// there was an intent since (KR-13-51). What the controllers of other kinds write into
// their own specs is part of the digest.
func (s *State) SettledOtherwise(generation int64) bool {
	return (s.Role == RoleComposite || s.Role == RoleClaim) && s.Desired != 0 && s.HasSettledState(generation) &&
		generation == s.SettledGeneration() && !s.AsSettled(generation)
}

// AsSettled reports whether the desired state is the one stored for an intent
// generation that settled: there was no other intent since, whatever else was
// written. An intent that was reverted before it was observed cannot be
// distinguished from none (KR-01-11).
func (s *State) AsSettled(generation int64) bool {
	want := s.SettledState(generation)
	return want != "" && generation == s.SettledGeneration() && s.Annotations[v1alpha1.AnnotationKeySettledState] == want
}
