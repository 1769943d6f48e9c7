package playground

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWaits: the playground that make demo KEEP=1 leaves has a change that waits, and prints the command of the page that shows it.
func TestWaits(t *testing.T) {
	require.NoError(t, the.Waits(t.Context()))
	out := types(t, t.TempDir(), "kubectl kausality pending -A --context alice")
	assert.Contains(t, out, "External drift")
	assert.Contains(t, out, "Database story/payments")
	assert.Contains(t, out, "7 → 50")
	assert.Contains(t, the.Page(), "kubectl kausality ui --context alice")
	types(t, t.TempDir(), "kubectl kausality approve -n story --cause external --yes --wait --context alice")
	out = types(t, t.TempDir(), "curl -s $CLOUD/databases")
	assert.True(t, strings.Contains(out, `"name":"payments"`) && strings.Contains(out, `"size":50`), out)
}
