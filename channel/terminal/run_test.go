package terminal

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
)

// soon bounds what a test waits for.
const soon = 20 * time.Second

// TestRun covers KR-17-22: a watch shows what has changed, and nothing of the terminal is left when it ends, by a key or with its context.
func TestRun(t *testing.T) {
	for _, how := range []string{"Key", "Context"} {
		t.Run(how, func(t *testing.T) {
			s, o, _ := viewtest.New(t, viewtest.Held(nil))
			o.Now = nil
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, typed := io.Pipe()
			out := &written{}
			ended := make(chan error, 1)
			go func() {
				ended <- Run(ctx, Options{Options: o, Cluster: "prod", In: in, Out: out, Width: 80, Height: 24, Environ: []string{"TERM=xterm-256color"}})
			}()
			has := func(text string) {
				t.Helper()
				require.Eventually(t, func() bool { return strings.Contains(out.String(), text) }, soon, 10*time.Millisecond, text)
			}
			has("shops-7f3")
			require.Eventually(t, func() bool { return s.Watched() == 1 }, soon, 10*time.Millisecond)
			s.Put(t, viewtest.Held(func(d *v1alpha1.Drift) {
				d.Name, d.Spec.ID, d.Spec.Causes[0].Name = "00000000000000aa", "00000000000000aa", "second-7f3"
			}))
			has("second-7f3")
			if how == "Key" {
				_, err := io.WriteString(typed, "q")
				require.NoError(t, err)
			} else {
				cancel()
			}
			require.NoError(t, <-ended)
			require.NoError(t, typed.Close())
			require.Eventually(t, func() bool { return s.Watched() == 0 }, soon, 10*time.Millisecond)
			require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+4 }, soon, 10*time.Millisecond, "kept connections to the API server alone")
			assert.NotContains(t, out.String(), "\x1b[?1003h", "the mouse is the terminal's own")
		})
	}
}
