package parent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const settledXR = `
apiVersion: example.org/v1
kind: XDatabase
metadata: {name: db, uid: u1, generation: 4, annotations: {kausality.io/settled-generation: "4"}}
spec:
  size: s
  nodes: 3
  crossplane: {compositionRef: {name: a}}
status: {conditions: []}
`

const legacyXR = `
apiVersion: example.org/v1
kind: XDatabase
metadata: {name: db, uid: u1}
spec: {size: s}
`

func field(value any, path ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, value, path...) }
}

func absent(path ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, path...) }
}

// What is the same desired state, and what is another.
func TestDesired(t *testing.T) {
	ref := map[string]any{"name": "b"}
	refs := []any{map[string]any{"apiVersion": "example.org/v1", "kind": "A", "name": "a"}}
	cases := map[string]struct {
		reason string
		object string
		role   Role
		mod    func(*unstructured.Unstructured)
		same   bool
	}{
		"Label":             {"metadata are none of it", settledXR, RoleComposite, field("x", "metadata", "labels", "app"), true},
		"Annotation":        {"nor are ours", settledXR, RoleComposite, field("5", "metadata", "annotations", v1alpha1.AnnotationKeySettledGeneration), true},
		"Generation":        {"nor is what the API server counts", settledXR, RoleComposite, field(int64(9), "metadata", "generation"), true},
		"ManagedFields":     {"nor who wrote what", settledXR, RoleComposite, field([]any{entry("kubectl", "", nil)}, "metadata", "managedFields"), true},
		"Status":            {"nor is the status", settledXR, RoleComposite, field("x", "status", "note"), true},
		"NoStatus":          {"nor that there is one", settledXR, RoleComposite, absent("status"), true},
		"Spec":              {"a field of the spec is", settledXR, RoleComposite, field("m", "spec", "size"), false},
		"SpecNew":           {"one that comes, too: a default, or a late initialisation", settledXR, RoleComposite, field("m", "spec", "zone"), false},
		"SpecGone":          {"and one that goes", settledXR, RoleComposite, absent("spec", "size"), false},
		"Number":            {"a number is a number", settledXR, RoleComposite, field(float64(3), "spec", "nodes"), true},
		"Machinery":         {"spec.crossplane is Crossplane's", settledXR, RoleComposite, field(refs, "spec", "crossplane", "resourceRefs"), true},
		"MachineryGone":     {"all of it", settledXR, RoleComposite, absent("spec", "crossplane"), true},
		"AuthorsRefs":       {"an author's resourceRefs beside spec.crossplane are the author's", settledXR, RoleComposite, field(refs, "spec", "resourceRefs"), false},
		"LegacyRefs":        {"of a legacy composite they are machinery", legacyXR, RoleComposite, field(refs, "spec", "resourceRefs"), true},
		"LegacyRevision":    {"and so is the revision, which a Composition upgrade moves", legacyXR, RoleComposite, field(ref, "spec", "compositionRevisionRef"), true},
		"ClaimRef":          {"and that of a Claim", legacyXR, RoleClaim, field(ref, "spec", "resourceRef"), true},
		"NobodysRefs":       {"of any other kind they are its author's", legacyXR, RoleNone, field(refs, "spec", "resourceRefs"), false},
		"NothingButRefs":    {"a spec of machinery alone comes and goes with it", "{apiVersion: example.org/v1, kind: X, metadata: {uid: u1}}", RoleComposite, field(ref, "spec", "compositionRef"), true},
		"Data":              {"kinds without a spec have their data", "{apiVersion: v1, kind: ConfigMap, metadata: {uid: u1}, data: {a: b}}", RoleNone, field("c", "data", "a"), false},
		"OtherObject":       {"what is copied to another object is not its own", settledXR, RoleComposite, field("u2", "metadata", "uid"), false},
		"OtherVersion":      {"what was read in another version cannot be compared", settledXR, RoleComposite, field("example.org/v2", "apiVersion"), false},
		"OtherKind":         {"nor another kind", settledXR, RoleComposite, field("Database", "kind"), false},
		"KeysThatSwapPlace": {"a value is not its neighbour's", settledXR, RoleComposite, func(o *unstructured.Unstructured) { field(int64(3), "spec", "size")(o); field("s", "spec", "nodes")(o) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			was := parse(t, tc.object)
			now := was.DeepCopy()
			tc.mod(now)
			before := now.DeepCopy()
			a, b := Sum(was, tc.role).Desired, Sum(now, tc.role).Desired
			if a == 0 || b == 0 || (a == b) != tc.same {
				t.Errorf("%s: want the same: %t, got %x and %x", tc.reason, tc.same, a, b)
			}
			if diff := cmp.Diff(before, now); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// The stored state is that of one settled generation and of nothing else.
func TestAsSettled(t *testing.T) {
	s := Sum(parse(t, settledXR), RoleComposite)
	own := s.SettledState(4)
	cases := map[string]struct {
		reason          string
		settled, stored string
		generation      int64
		desired         uint64
		same, has       bool
	}{
		"Same":            {"nothing was changed since", "4", own, 4, s.Desired, true, true},
		"Changed":         {"the desired state is another", "4", own, 4, s.Desired + 1, false, true},
		"Absent":          {"never recorded, as an older release leaves it", "4", "", 4, s.Desired, false, false},
		"LaterIntent":     {"an intent was recorded since: the earlier digest does not matter", "4", own, 5, s.Desired, false, false},
		"LaterLatch":      {"an older release latched a later intent and left it behind", "5", own, 5, s.Desired, false, false},
		"LatchGone":       {"without the latch it is of no settled generation", "", own, 4, s.Desired, false, true},
		"LatchElsewhere":  {"nor with that of another", "7", own, 4, s.Desired, false, true},
		"Unread":          {"a state of which no digest is known", "4", "4,0000000000000000", 4, 0, false, true},
		"Nonsense":        {"what is no such value", "4", "x", 4, s.Desired, false, false},
		"WithoutCount":    {"kinds without a generation never settle", "0", own, 0, s.Desired, false, false},
		"PrefixOfANumber": {"4 is not 40", "40", "4" + own[1:], 40, s.Desired, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := State{Desired: tc.desired, Annotations: map[string]string{v1alpha1.AnnotationKeySettledState: tc.stored, v1alpha1.AnnotationKeySettledGeneration: tc.settled}}
			if got := s.AsSettled(tc.generation); got != tc.same {
				t.Errorf("%s: want %t, got %t", tc.reason, tc.same, got)
			}
			if got := s.HasSettledState(tc.generation); got != tc.has {
				t.Errorf("%s: recorded: want %t, got %t", tc.reason, tc.has, got)
			}
		})
	}
}

// The value is stored: the same object has the same one in any release that
// reads it.
func TestSettledStateIsStable(t *testing.T) {
	if got, want := Sum(parse(t, settledXR), RoleComposite).SettledState(4), "4,2ce137e716cdf89b"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}
