package channel

import (
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestOwnCommands covers KR-12-36: what the webhook writes for kubectl alone is printed as the commands of the plugin.
func TestOwnCommands(t *testing.T) {
	const approve, unfreeze = "kubectl annotate -n shop xdatabases.example.org orders kausality.io/approve-", "xdatabases.example.org orders kausality.io/freeze-"
	const unknown, namespace = approve + "0af22fca0ed77980=once", "kubectl annotate namespace shop kausality.io/freeze-"
	pending := []v1alpha1.Drift{{Spec: v1alpha1.DriftSpec{ID: "1f2e3d4c5b6a7980"}}}
	for _, c := range []struct{ text, want string }{
		{"try again: " + approve + "1f2e3d4c5b6a7980=once; to leave it", "try again: kubectl kausality approve 1f2e3d4c5b6a7980 -n shop; to leave it"},
		{"kubectl annotate xdatabases.example.org orders kausality.io/approve-1f2e3d4c5b6a7980='once: again, after 0af22fca0ed7'",
			"kubectl kausality approve 1f2e3d4c5b6a7980"},
		{unknown, unknown},
		{"To unfreeze: kubectl annotate -n shop " + unfreeze, "To unfreeze: kubectl kausality unfreeze -n shop xdatabases.example.org/orders"},
		{"kubectl annotate " + unfreeze, "kubectl kausality unfreeze xdatabases.example.org/orders"},
		{namespace, namespace},
	} {
		if got := OwnCommands(c.text, pending); got != c.want {
			t.Errorf("%s: %s", c.text, got)
		}
	}
}
