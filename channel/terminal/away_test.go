package terminal

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/channel/view"
)

// firstLines keeps what is written first; a write fails where fails.
type firstLines struct {
	mu    sync.Mutex
	text  strings.Builder
	lines int
	fails bool
}

func (f *firstLines) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lines++; f.lines <= 10 {
		f.text.Write(p)
	}
	if f.fails && f.lines > 1 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestPlainAway covers KR-17-21 and KR-17-22: while there is no API server it prints why, in text alone, and ends with its context or with the terminal.
func TestPlainAway(t *testing.T) {
	for name, fails := range map[string]bool{"Ends": false, "Closed": true} {
		t.Run(name, func(t *testing.T) {
			in, typed, err := os.Pipe()
			require.NoError(t, err)
			defer in.Close()    //nolint:errcheck // Nothing was written.
			defer typed.Close() //nolint:errcheck // Nothing was written.
			out := &firstLines{fails: fails}
			wait := 300 * time.Millisecond
			if fails {
				wait = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			err = Plain(ctx, Options{Options: view.Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, User: "u\x1b[2J"},
				Cluster: "prod\x1b]0;owned\a", In: in, Out: out})
			if fails {
				assert.ErrorIs(t, err, io.ErrClosedPipe)
			} else {
				assert.NoError(t, err)
			}
			assert.NotContains(t, out.text.String(), "\x1b")
			assert.Contains(t, out.text.String(), "owned")
			assert.Less(t, out.lines, 10)
		})
	}
}
