package identity

import (
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// A command is about its object, whatever the object is named (KR-13-10).
func TestTarget(t *testing.T) {
	role := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}
	for name, tc := range map[string]struct{ name, want string }{
		"Plain":   {name: "orders-7", want: "-n shop role.rbac.authorization.k8s.io orders-7"},
		"Colon":   {name: "system:node", want: "-n shop role.rbac.authorization.k8s.io system:node"},
		"Command": {name: "x;touch pwned", want: "-n shop 'role.rbac.authorization.k8s.io/x;touch pwned'"},
		"Quote":   {name: "x'y", want: `-n shop 'role.rbac.authorization.k8s.io/x'\''y'`},
		"Flag":    {name: "--all", want: "-n shop 'role.rbac.authorization.k8s.io/--all'"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Target(parent.Ref{GroupVersionKind: role, Namespace: "shop", Name: tc.name}, Kind{}); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}

// A shell reads a quoted text as one word, and as what it was.
func TestQuoted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(rapid.StringMatching(`[ -~]{0,20}`).Draw(t, "text"), "\x00", "")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s. "+quoted(text)).Output()
		if err != nil || string(out) != text+"." {
			t.Fatalf("%q became %q, %v", text, out, err)
		}
	})
}
