package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func printed(t *testing.T, format string, list []v1alpha1.Drift) (out, errOut *bytes.Buffer) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	c := pendingCommand{session: &session{IOStreams: streams}}
	c.format.value = format
	require.NoError(t, c.print(list, "in namespace team"))
	return out, errOut
}

// TestPendingNone prints an empty list as kubectl get does: [] and never null (KR-12-16).
func TestPendingNone(t *testing.T) {
	for format, want := range map[string]string{formatJSON: `"items": []`, formatYAML: "items: []"} {
		if out, _ := printed(t, format, nil); !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s, want %s in it", format, out, want)
		}
	}
}

// TestPendingNames prints no name of a Drift that does not exist (KR-12-16).
func TestPendingNames(t *testing.T) {
	drift, held := v1alpha1.Drift{}, v1alpha1.Drift{}
	drift.Name, drift.UID = "0123456789abcdef", "u1"
	held.Name = "fedcba9876543210"
	out, errOut := printed(t, formatName, []v1alpha1.Drift{held, drift})
	if want := "drift.kausality.io/0123456789abcdef\n"; out.String() != want {
		t.Errorf("names: %q, want %q", out, want)
	}
	if want := "Not listed: 1 change that"; !strings.HasPrefix(errOut.String(), want) {
		t.Errorf("standard error: %q, want %q", errOut, want)
	}
}
