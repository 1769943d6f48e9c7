package kubectl

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// previews of the current Composition, which changes nothing, and of the one that
// held installs afterwards.
func previews(t *testing.T) {
	cli, err := parts.Ensure(t.Context(), os.Stderr, "", parts.CrossplaneCLI)
	require.NoError(t, err)
	functions := servePatchAndTransform(t)
	same, changed := compositionFile(t, "bronze", true), compositionFile(t, "gold", true)
	program := "--crossplane=" + cli[parts.CrossplaneCLI]
	the.terminal(t, "", "preview", same, program, "--functions", functions).golden(t, "preview-same", 0)
	r := the.terminal(t, "", "preview", changed, program, "--functions", functions, "--exit-code", "-o", "wide")
	r.golden(t, "preview", 4)
	if !strings.Contains(r.out, foreseen) {
		t.Errorf("explain foresaw difference %s, preview shows another one:\n%s", foreseen, r.out)
	}
	the.terminal(t, "", "preview", compositionFile(t, "gold", false), program, "--functions", functions).golden(t, "preview-removed", 0)
	the.terminal(t, "", "preview", changed, "--crossplane=/nothing/there").golden(t, "preview-no-program", 2)
}

// compositionFile of a tier, with or without the settings.
func compositionFile(t *testing.T, tier string, settings bool) string {
	t.Helper()
	raw, err := story.Example("composition.yaml")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(raw), "tier: bronze", "tier: "+tier)
	if !settings {
		from, to := strings.Index(text, "      - name: settings"), strings.Index(text, "  - step: kausality")
		if from < 0 || to < from {
			t.Fatal("the example is another one")
		}
		text = text[:from] + text[to:]
	}
	file := filepath.Join(t.TempDir(), "composition.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// servePatchAndTransform without TLS, as `crossplane render` connects to functions in
// development, and write the file with its address.
func servePatchAndTransform(t *testing.T) string {
	t.Helper()
	port, err := controlplane.FreePort()
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := the.Run(context.Background(), "patch-and-transform-for-preview", exec.Command(the.Bins[parts.PatchAndTransform], "--insecure", "--address="+address))
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	wait.For(t, "the function to listen", 60*time.Second, func(context.Context) error {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	})
	raw, err := story.Example("functions.yaml")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "functions.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(raw), "localhost:9444", address)), 0o600))
	return file
}
