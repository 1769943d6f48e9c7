package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestParseHeld reads lines that the composition function of the previous
// release wrote (KR-09-05).
func TestParseHeld(t *testing.T) {
	const (
		id      = "d97c6f94d8b87d43"
		command = "kubectl annotate -n default xdatabases.example.org orders kausality.io/approve-d97c6f94d8b87d43=once"
	)
	child := func(kind, namespace, name, resource string) v1alpha1.ObjectReference {
		return v1alpha1.ObjectReference{Kind: kind, Namespace: namespace, Name: name, Resource: resource}
	}
	cases := map[string]struct {
		reason string
		line   string
		want   heldChange
		ok     bool
	}{
		"Update": {
			reason: "fields, object and command",
			line: `resource "database": Drift: changing spec.forProvider.tags.tier, spec.a of Database default/orders-9a6a4f is not allowed: ` +
				`nobody asked for it: the spec of XDatabase default/orders has not changed since it settled at generation 5. ` +
				`To approve exactly this change: ` + command,
			want: heldChange{child: child("Database", "default", "orders-9a6a4f", "database"), id: id, approve: command, operation: "UPDATE",
				paths: []string{"spec.forProvider.tags.tier", "spec.a"}},
			ok: true,
		},
		"Create": {
			reason: "Crossplane generates the name later",
			line:   `resource "db": Drift: creating Database default/(name to be generated) is not allowed: nobody asked for it. ` + command,
			want:   heldChange{child: child("Database", "default", "", "db"), id: id, approve: command, operation: "CREATE"},
			ok:     true,
		},
		"ClusterScoped": {
			reason: "without a namespace",
			line:   `resource "db": Drift: deleting Database orders by crossplane is not allowed: x. ` + command,
			want:   heldChange{child: child("Database", "", "orders", "db"), id: id, approve: command, operation: "DELETE"},
			ok:     true,
		},
		"Truncated": {
			reason: "a long message keeps reason and fields only",
			line:   `resource "db": Drift of spec.a, spec.b and 3 more. To approve: ` + command,
			want:   heldChange{child: child("", "", "", "db"), id: id, approve: command, operation: "UPDATE"},
			ok:     true,
		},
		"Frozen": {
			reason: "without a command it cannot be approved",
			line:   `resource "db": Frozen: changing spec.a of Database orders is not allowed: XDatabase default/orders was frozen`,
		},
		"Note":        {reason: "a line about no resource", line: "the trace is not complete"},
		"OtherFormat": {reason: "a line of an unknown version", line: `db: ` + command},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := parseHeld(tc.line)
			if ok != tc.ok {
				t.Fatalf("%s: ok is %t", tc.reason, ok)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(heldChange{})); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzParseHeld(f *testing.F) {
	f.Add(`resource "db": Drift: changing a of B c is not allowed: x. kubectl annotate d kausality.io/approve-d97c6f94d8b87d43=once`)
	f.Fuzz(func(t *testing.T, line string) {
		if h, ok := parseHeld(line); ok && (h.id == "" || h.child.Resource == "" || h.approve == "") {
			t.Errorf("%q: %+v", line, h)
		}
	})
}
