package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What the function says in its condition; the lines are of real runs.
func TestHeldLines(t *testing.T) {
	const command = "kubectl annotate -n default xdatabases.example.org orders kausality.io/approve-d97c6f94d8b87d43=once"
	cases := map[string]struct {
		reason, line string
		want         heldLine
		ok           bool
	}{
		"Update": {"what, of what, and the command",
			`resource "database": Drift: changing spec.forProvider.tags.tier, spec.a of Database default/orders-9a6a4f is not allowed: nobody asked for it: the spec of XDatabase default/orders has not changed since it settled at generation 5. To approve exactly this change: ` + command,
			heldLine{"database", "d97c6f94d8b87d43", command, "UPDATE", "Database", "default", "orders-9a6a4f", []string{"spec.forProvider.tags.tier", "spec.a"}}, true},
		"Create": {"its name comes later", `resource "db": Drift: creating Database default/(name to be generated) is not allowed: nobody asked for it. ` + command,
			heldLine{"db", "d97c6f94d8b87d43", command, "CREATE", "Database", "default", "", nil}, true},
		"ClusterScoped": {"it has no namespace", `resource "db": Drift: deleting Database orders by crossplane is not allowed: x. ` + command,
			heldLine{"db", "d97c6f94d8b87d43", command, "DELETE", "Database", "", "orders", nil}, true},
		"Cut":         {"of a long message only reason and fields stay", `resource "db": Drift of spec.a, spec.b and 3 more. To approve: ` + command, heldLine{resource: "db", id: "d97c6f94d8b87d43", command: command, operation: "UPDATE"}, true},
		"Frozen":      {"what cannot be approved does not wait for it", `resource "db": Frozen: changing spec.a of Database orders is not allowed: XDatabase default/orders was frozen`, heldLine{}, false},
		"Note":        {"a line about nothing", "the trace is not complete", heldLine{}, false},
		"OtherFormat": {"a line of another version", `db: ` + command, heldLine{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := parseHeld(tc.line)
			if ok != tc.ok {
				t.Fatalf("%s: ok is %t", tc.reason, ok)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(heldLine{})); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			xr := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "Ready", "status": "False", "message": tc.line},
				map[string]any{"type": "Kausality", "status": "False", "message": "a note\n" + tc.line + "\n"},
			}}}}
			if got := StillHeld(xr, "d97c6f94d8b87d43"); got != tc.ok {
				t.Errorf("%s: still held is %t", tc.reason, got)
			}
		})
	}
}

func FuzzParseHeld(f *testing.F) {
	f.Add(`resource "db": Drift: changing a of B c is not allowed: x. kubectl annotate d kausality.io/approve-d97c6f94d8b87d43=once`)
	f.Fuzz(func(t *testing.T, line string) {
		if l, ok := parseHeld(line); ok && (l.id == "" || l.resource == "") {
			t.Errorf("%q: %+v", line, l)
		}
	})
}
