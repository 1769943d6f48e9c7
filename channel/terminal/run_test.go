package terminal

import (
	"context"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
	"github.com/kausality-io/function-kausality/internal/await"
)

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
			out.await(t, "shops-7f3")
			s.AwaitWatches(t, 1)
			s.Put(t, viewtest.Held(func(d *v1alpha1.Drift) {
				d.Name, d.Spec.ID, d.Spec.Causes[0].Name = "00000000000000aa", "00000000000000aa", "second-7f3"
			}))
			out.await(t, "second-7f3")
			if how == "Key" {
				_, err := io.WriteString(typed, "q")
				require.NoError(t, err)
			} else {
				cancel()
			}
			require.NoError(t, <-ended)
			require.NoError(t, typed.Close())
			s.AwaitWatches(t, 0)
			await.Poll(t, "all goroutines to end but those of kept connections to the API server", func() bool { return runtime.NumGoroutine() <= before+4 })
			assert.NotContains(t, out.String(), "\x1b[?1003h", "the mouse is the terminal's own")
		})
	}
}
