package install

import (
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file comes last: its tests look back on the others, and end the
// installation.

// TestForbidden: in all of this no component was refused anything: it has the
// access that it needs.
func TestForbidden(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "grep", "-hE", `"responseStatus":\{[^}]*"code":403`, the.AuditLog()).Output()
	if len(out) == 0 {
		return
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "system:serviceaccount:"+home+":kausality-") && !strings.Contains(line, "kausality-orphan-protection") {
			t.Errorf("refused: %s", line)
		}
	}
	must(t, err)
}

// TestUninstall is the last: when the release goes, nothing stays behind that
// anybody would wait for.
func TestUninstall(t *testing.T) {
	ns := namespace(t, "uninstalled")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	for _, p := range append([]*process{the.controller, the.gate}, the.webhooks...) {
		p.Stop()
	}
	for _, o := range the.chart {
		if k := o.GetKind(); k == "ClusterRole" || k == "ClusterRoleBinding" {
			r, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
			must(t, the.admin.Resource(r).Delete(t.Context(), o.GetName(), forget))
		}
	}
	policies := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	gone(t, map[schema.GroupVersionResource][]string{
		hooks: {"kausality"}, policies: {"kausality-orphan-protection", "kausality-annotation-protection"},
		bindings: {"kausality-orphan-protection", "kausality-annotation-protection-shop"},
		roles:    {"kausality-webhook-policies", "kausality-gate-policies", "kausality-controller-policies"},
	})
	_, err := app(t, ns, "free")
	must(t, err)
}
