package parent

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
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
		"Label": {reason: "metadata are none of it", object: settledXR, role: RoleComposite,
			mod: field("x", "metadata", "labels", "app"), same: true},
		"Annotation": {reason: "nor are ours", object: settledXR, role: RoleComposite,
			mod: field("5", "metadata", "annotations", v1alpha1.AnnotationKeySettledGeneration), same: true},
		"Generation": {reason: "nor is what the API server counts", object: settledXR, role: RoleComposite,
			mod: field(int64(9), "metadata", "generation"), same: true},
		"ManagedFields": {reason: "nor who wrote what", object: settledXR, role: RoleComposite,
			mod: field([]any{entry("kubectl", "", nil)}, "metadata", "managedFields"), same: true},
		"Status": {reason: "nor is the status", object: settledXR, role: RoleComposite, mod: field("x", "status", "note"),
			same: true},
		"NoStatus": {reason: "nor that there is one", object: settledXR, role: RoleComposite, mod: absent("status"),
			same: true},
		"Spec": {reason: "a field of the spec is", object: settledXR, role: RoleComposite,
			mod: field("m", "spec", "size")},
		"SpecNew": {reason: "one that comes, too: a default, or a late initialisation", object: settledXR,
			role: RoleComposite, mod: field("m", "spec", "zone")},
		"SpecGone": {reason: "and one that goes", object: settledXR, role: RoleComposite, mod: absent("spec", "size")},
		"Number": {reason: "a number is a number", object: settledXR, role: RoleComposite,
			mod: field(float64(3), "spec", "nodes"), same: true},
		"Machinery": {reason: "spec.crossplane is Crossplane's", object: settledXR, role: RoleComposite,
			mod: field(refs, "spec", "crossplane", "resourceRefs"), same: true},
		"MachineryGone": {reason: "all of it", object: settledXR, role: RoleComposite, mod: absent("spec", "crossplane"),
			same: true},
		"AuthorsRefs": {reason: "an author's resourceRefs beside spec.crossplane are the author's", object: settledXR,
			role: RoleComposite, mod: field(refs, "spec", "resourceRefs")},
		"LegacyRefs": {reason: "of a legacy composite they are machinery", object: legacyXR, role: RoleComposite,
			mod: field(refs, "spec", "resourceRefs"), same: true},
		"LegacyRevision": {reason: "and so is the revision, which a Composition upgrade moves", object: legacyXR,
			role: RoleComposite, mod: field(ref, "spec", "compositionRevisionRef"), same: true},
		"ClaimRef": {reason: "and that of a Claim", object: legacyXR, role: RoleClaim,
			mod: field(ref, "spec", "resourceRef"), same: true},
		"NobodysRefs": {reason: "of any other kind they are its author's", object: legacyXR, role: RoleNone,
			mod: field(refs, "spec", "resourceRefs")},
		"NothingButRefs": {reason: "a spec of machinery alone comes and goes with it",
			object: "{apiVersion: example.org/v1, kind: X, metadata: {uid: u1}}", role: RoleComposite, mod: field(ref, "spec", "compositionRef"),
			same: true},
		"Data": {reason: "kinds without a spec have their data",
			object: "{apiVersion: v1, kind: ConfigMap, metadata: {uid: u1}, data: {a: b}}", role: RoleNone, mod: field("c", "data", "a")},
		"OtherObject": {reason: "what is copied to another object is not its own", object: settledXR, role: RoleComposite,
			mod: field("u2", "metadata", "uid")},
		"OtherVersion": {reason: "what was read in another version cannot be compared", object: settledXR, role: RoleComposite,
			mod: field("example.org/v2", "apiVersion")},
		"OtherKind": {reason: "nor another kind", object: settledXR, role: RoleComposite, mod: field("Database", "kind")},
		"KeysThatSwapPlace": {reason: "a value is not its neighbour's", object: settledXR, role: RoleComposite,
			mod: func(o *unstructured.Unstructured) { field(int64(3), "spec", "size")(o); field("s", "spec", "nodes")(o) }},
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
		"Same": {reason: "nothing was changed since", settled: "4", stored: own, generation: 4, desired: s.Desired,
			same: true, has: true},
		"Changed": {reason: "the desired state is another", settled: "4", stored: own, generation: 4, desired: s.Desired + 1,
			has: true},
		"Absent": {reason: "never recorded, as an older release leaves it", settled: "4", generation: 4, desired: s.Desired},
		"LaterIntent": {reason: "an intent was recorded since: the earlier digest does not matter", settled: "4", stored: own,
			generation: 5, desired: s.Desired},
		"LaterLatch": {reason: "an older release latched a later intent and left it behind", settled: "5", stored: own,
			generation: 5, desired: s.Desired},
		"LatchGone": {reason: "without the latch it is of no settled generation", stored: own, generation: 4,
			desired: s.Desired, has: true},
		"LatchElsewhere": {reason: "nor with that of another", settled: "7", stored: own, generation: 4, desired: s.Desired,
			has: true},
		"Unread": {reason: "a state of which no digest is known", settled: "4", stored: "4,0000000000000000", generation: 4,
			has: true},
		"Nonsense":        {reason: "what is no such value", settled: "4", stored: "x", generation: 4, desired: s.Desired},
		"WithoutCount":    {reason: "kinds without a generation never settle", settled: "0", stored: own, desired: s.Desired},
		"PrefixOfANumber": {reason: "4 is not 40", settled: "40", stored: "4" + own[1:], generation: 40, desired: s.Desired},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := State{Desired: tc.desired, Annotations: map[string]string{v1alpha1.AnnotationKeySettledState: tc.stored,
				v1alpha1.AnnotationKeySettledGeneration: tc.settled}}
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

// TestStoredDigest: the digest of a state is that of its JSON by encoding/json, as earlier releases stored it.
func TestStoredDigest(t *testing.T) {
	o := parse(t, settledXR)
	o.Object["spec"] = map[string]any{
		"text": "<a href=\"x\">&\u2028é\x00\b\f</a>", "none": nil, "list": []any{}, "object": map[string]any{},
		"numbers": []any{int64(-1), int64(1) << 60, 1.0, 1.5, 1e-7, 1e21, 123456789.125}, "b": true, "a": map[string]any{"z": "1", "é": "2", "Z": "3"},
	}
	raw, err := json.Marshal([]any{"u1", "example.org/v1", "XDatabase", map[string]any{"spec": o.Object["spec"]}})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	if diff := cmp.Diff(binary.BigEndian.Uint64(sum[:]), Sum(o, RoleNone).Desired); diff != "" {
		t.Error(diff)
	}
}
