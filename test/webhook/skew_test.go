package webhook

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// skewed is the clock of a machine that is wrong, in place of admission/clock/local.go.
const skewed = `package clock

import (
	"os"
	"time"
)

var skew = func() time.Duration {
	d, err := time.ParseDuration(os.Getenv("KAUSALITY_TEST_SKEW"))
	if err != nil {
		panic(err)
	}
	return d
}()

func local() time.Time { return time.Now().Add(skew) }
`

// TestSkew: decisions are those of the API server's time, whatever this machine's clock shows: hans's creation stays his after a write
// of the controller, the App settles, and an unrequested change is refused (KR-13-25).
func TestSkew(t *testing.T) {
	t.Parallel()
	program := buildSkewed(t)
	for name, skew := range map[string]time.Duration{
		"behind": -20 * time.Second, "farbehind": -2 * time.Minute, "ahead": time.Minute, "farahead": 2 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, name, options{replicas: 1, program: program, env: []string{"KAUSALITY_TEST_SKEW=" + skew.String()}})
			s := newFixture(t, f, name)
			s.settled("part")
			_, err := s.apps(s.ctrl).Patch(t.Context(), "app", types.MergePatchType, []byte(`{"spec":{"bookkeeping":1}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			hop, err := hopOf(s.get())
			require.NoError(t, err)
			if hop.User != hans || hop.Unattributed {
				t.Errorf("the creation of the App is by %q, unattributed: %v, after a write of its controller", hop.User, hop.Unattributed)
			}
			if ahead := time.Until(hop.Timestamp.Time); ahead > 2*time.Second || ahead < -time.Minute {
				t.Errorf("the hop is of %s, %s from now", hop.Timestamp, ahead)
			}
			mustRefuse(t, s.count(s.ctrl, "part", 1), "Drift")
			s.intent(2)
			require.NoError(t, s.count(s.ctrl, "part", 2))
			s.observe()
			s.awaitLatch()
			mustRefuse(t, s.count(s.ctrl, "part", 3), "Drift")
			if got := f.replicas[0].metric(t, "kausality_clock_skew_seconds"); got+skew.Seconds() > 2 || got+skew.Seconds() < -2 {
				t.Errorf("the metric of the skew is %v, want %v", got, -skew.Seconds())
			}
		})
	}
}

// buildSkewed builds the binary under test with a clock that is wrong by the duration in KAUSALITY_TEST_SKEW, and returns its path.
func buildSkewed(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	replacement, overlay, program := filepath.Join(dir, "local.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "kausality")
	require.NoError(t, os.WriteFile(replacement, []byte(skewed), 0o600))
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "admission", "clock", "local.go"): replacement}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, raw, 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, "./cmd/kausality")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("cannot build a binary with a clock that is wrong: %w\n%s", err, out))
	}
	return program
}
