package change

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestIDGolden: ids are stored in annotations and Drifts of clusters, and in Git,
// so they never change.
func TestIDGolden(t *testing.T) {
	xr := Identity{APIVersion: "example.org/v1", Kind: "XShop", Name: "shop"}
	db := Identity{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "shop", Name: "db", Resource: "database"}
	cases := map[string]struct {
		reason    string
		relation  v1alpha1.Relation
		operation string
		child     Identity
		changes   []Change
		want      string
	}{
		"Update": {reason: "one field", relation: v1alpha1.RelationControllerChild, operation: "UPDATE", child: db,
			changes: []Change{{Path: "spec.size", Verb: Mutate, Old: "s", New: "l"}}, want: "cd120a9de3a7e327"},
		"Insert": {reason: "a field that is new", relation: v1alpha1.RelationControllerChild, operation: "UPDATE", child: db,
			changes: []Change{{Path: "spec.tags[a.b/c]", Verb: Insert, New: map[string]any{"z": int64(1), "a": []any{true, nil, 1.5}}}}, want: "4303050d63ff6270"},
		"Delete": {reason: "the object as a whole", relation: v1alpha1.RelationControllerChild, operation: "DELETE", child: db, want: "9f36f913e790375a"},
		"External": {reason: "an external difference has no operation", relation: v1alpha1.RelationExternal, child: db,
			changes: []Change{{Path: "spec.forProvider.size", Verb: Mutate, Old: int64(3), New: int64(5)}}, want: "75c240f4797faf76"},
		"Escapes": {reason: "characters that JSON for HTML escapes", relation: v1alpha1.RelationControllerChild, operation: "UPDATE", child: db,
			changes: []Change{{Path: "spec.note", Verb: Mutate, Old: "<&>\u2028\"\\\t", New: "\xff ü"}}, want: "9cfefe64d4011940"},
		"Numbers": {reason: "numbers in the forms of Go", relation: v1alpha1.RelationControllerChild, operation: "UPDATE", child: db,
			changes: []Change{
				{Path: "spec.a", Verb: Mutate, Old: int64(math.MaxInt64), New: 1e21}, {Path: "spec.b", Verb: Mutate, Old: 1e-7, New: -0.5},
				{Path: "spec.c", Verb: Mutate, Old: 3, New: 3.0},
			}, want: "fff9fc11bf6df87f"},
		"NotJSON": {reason: "values that are not JSON", relation: v1alpha1.RelationControllerChild, operation: "UPDATE", child: db,
			changes: []Change{{Path: "spec.a", Verb: Mutate, Old: math.NaN(), New: []any{math.Inf(1)}}}, want: "935936a1512628e3"},
		"Empty": {reason: "empty and absent values", relation: v1alpha1.RelationControllerChild, operation: "UPDATE", child: db,
			changes: []Change{
				{Path: "spec.a", Verb: Mutate, Old: map[string]any{}, New: []any{}},
				{Path: "spec.b", Verb: Mutate, Old: map[string]any(nil), New: []any(nil)},
				{Path: "spec.c", Verb: Mutate, Old: json.RawMessage(`{"a": 1}`)},
			}, want: "44fa8c4c50714c58"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if got := DigestOf(tc.relation, tc.operation, xr, tc.child, tc.changes).ID(); got != tc.want {
					t.Errorf("%s: want %s, got %s", tc.reason, tc.want, got)
				}
			}
		})
	}
}

// BenchmarkID of a difference of three fields.
func BenchmarkID(b *testing.B) {
	xr := Identity{APIVersion: "example.org/v1", Kind: "XShop", Name: "shop"}
	db := Identity{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "shop", Name: "db", Resource: "database"}
	changes := []Change{
		{Path: "spec.forProvider.size", Verb: Mutate, Old: "small", New: "large"},
		{Path: "spec.forProvider.replicas", Verb: Mutate, Old: int64(3), New: int64(5)},
		{Path: "spec.forProvider.tags", Verb: Insert, New: map[string]any{"team": "shop", "owner": "alice", "stage": "production"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if DigestOf(v1alpha1.RelationControllerChild, "UPDATE", xr, db, changes).ID() == "" {
			b.Fatal("no id")
		}
	}
}
