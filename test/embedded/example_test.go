package embedded

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// TestStory plays the story of the example in two logical clusters of one server: each has a garden of the same name, whose drift is refused until
// it is approved there.
func TestStory(t *testing.T) {
	out := play(t, "--clusters=root,orchard")
	for _, cluster := range []string{"root", "orchard"} {
		_, of, found := strings.Cut(out, "cluster "+cluster+"\n")
		require.True(t, found, out)
		of, _, _ = strings.Cut(of, "\ncluster ")
		assert.Equal(t, 3, strings.Count(of, `"user":"hans"`), "each change of a plant is traced to the user\n%s", of)
		assert.Contains(t, of, "refused: ", cluster)
		assert.Contains(t, of, "Fertilizer:bone meal", cluster)
	}
}

// play the example with flags, and return what it prints.
func play(t *testing.T, flags ...string) string {
	t.Helper()
	built, err := parts.Ensure(t.Context(), os.Stdout, "", parts.GenericControlPlane)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, built[parts.GenericControlPlane], flags...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
