package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
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

// TestSkew: decisions are those of the API server's time, whatever the clock of a replica shows, which admits everything here while another
// one with the right time leads: the creation of a composite stays hans's after Crossplane's bookkeeping, the composite settles, and an
// unrequested change of its child is refused (KR-13-25).
func TestSkew(t *testing.T) {
	t.Parallel()
	program := buildSkewed(t)
	for name, skew := range map[string]time.Duration{
		"behind": -20 * time.Second, "farbehind": -2 * time.Minute, "ahead": time.Minute, "farahead": 2 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The grace is longer than this test's writes take on a busy machine.
			args := []string{"--settle-grace=30s", "--controller-namespaces=apps"}
			f := startFleet(t, name, options{replicas: 2, program: program, args: args, env: func(i int) []string {
				return []string{"KAUSALITY_TEST_SKEW=" + (time.Duration(i) * skew).String()}
			}})
			if f.awaitFollower() == 0 {
				f.crash(1)
				wait.For(t, "the replica with the right time to lead", time.Minute, func(context.Context) error {
					if f.replicas[0].metric(t, "leader_election_master_status") != 1 {
						return errors.New("it does not")
					}
					return nil
				})
				f.restart(1)
			}
			f.proxy.pinned.Store(2)
			s := newFixture(t, f, name)
			s.skewedComposite()
			if got := f.replicas[1].metric(t, "kausality_clock_skew_seconds"); got+skew.Seconds() > 2 || got+skew.Seconds() < -2 {
				t.Errorf("the metric of the skew is %v, want %v", got, -skew.Seconds())
			}
		})
	}
}

// wrong is what a time may be off by seconds and the estimate of the skew, and less than any skew of TestSkew.
const wrong = 5 * time.Second

// skewedComposite plays TestSkew.
func (s *fixture) skewedComposite() {
	s.t.Helper()
	ctx, composites := s.t.Context(), s.ctrl.Resource(s.resource("xbuckets")).Namespace(s.ns)
	began := time.Now()
	s.app = s.create("XBucket", "thing", map[string]any{"size": int64(1)})
	child := func() error {
		_, err := s.of(s.ctrl).Patch(ctx, "part", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"count":%d}}`, time.Now().UnixNano()%1e6),
			metav1.PatchOptions{})
		return err
	}
	s.part("part")
	report := func() {
		s.t.Helper()
		o, err := composites.Get(ctx, "thing", metav1.GetOptions{})
		require.NoError(s.t, err)
		body := fmt.Appendf(nil, `{"status":{"conditions":[
			{"type":"Synced","status":"True","reason":"A","observedGeneration":%[1]d,"lastTransitionTime":%[2]q},
			{"type":"Ready","status":"True","reason":"A","observedGeneration":%[1]d,"lastTransitionTime":%[2]q}]}}`,
			o.GetGeneration(), time.Now().UTC().Format(time.RFC3339))
		_, err = composites.Patch(ctx, "thing", types.MergePatchType, body, metav1.PatchOptions{}, "status")
		require.NoError(s.t, err)
	}
	report()
	bookkeeping := fmt.Appendf(nil, `{"spec":{"compositionRevisionRef":{"name":"a"},
		"resourceRefs":[{"apiVersion":%q,"kind":"Part","name":"part"}]}}`, s.app.GetAPIVersion())
	_, err := composites.Patch(ctx, "thing", types.MergePatchType, bookkeeping,
		metav1.PatchOptions{FieldManager: "apiextensions.crossplane.io/composite"})
	require.NoError(s.t, err)
	report()
	require.NoError(s.t, child(), "the composite has not settled for its grace")
	part := s.read("part")
	var hops []v1alpha1.Hop
	require.NoError(s.t, json.Unmarshal([]byte(part.GetAnnotations()[v1alpha1.AnnotationKeyTrace]), &hops))
	at := hops[0].Timestamp.Time
	if hops[0].User != hans || hops[0].Unattributed || at.Before(began.Add(-wrong)) || at.After(time.Now().Add(wrong)) {
		s.t.Errorf("the creation is by %q at %s, unattributed: %v, after bookkeeping", hops[0].User, hops[0].Timestamp, hops[0].Unattributed)
	}
	wait.Often(s.t, "the composite to settle", 45*time.Second, func() error {
		o, err := composites.Get(ctx, "thing", metav1.GetOptions{})
		require.NoError(s.t, err)
		return latched(o)
	})
	mustRefuse(s.t, child(), "Drift")
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
