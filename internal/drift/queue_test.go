package drift

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/internal/await"
)

// TestQueue: a slow item delays those of its key, which are handled in their order, and no others.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var handled []string
		release := make(chan struct{})
		q, err := newQueue("test", 10, 2, logr.Discard(), func(_ context.Context, item string) error {
			if item == "a1" {
				<-release
			}
			mu.Lock()
			defer mu.Unlock()
			handled = append(handled, item)
			return nil
		})
		require.NoError(t, err)
		for _, item := range []string{"a1", "a2", "b1", "a3", "b2"} {
			require.True(t, q.add(item[:1], item))
		}
		go func() { assert.NoError(t, q.Start(t.Context())) }()
		so := func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(handled, " ")
		}
		synctest.Wait()
		require.Equal(t, "b1 b2", so())
		assert.Equal(t, 2, q.len())
		q.later("b", "b3", time.Minute)
		await.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "b1 b2 b3", so())
		close(release)
		synctest.Wait()
		require.Equal(t, "b1 b2 b3 a1 a2 a3", so())
		assert.Zero(t, q.len())
	})
}
