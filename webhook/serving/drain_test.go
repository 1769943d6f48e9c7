package serving

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kausality-io/function-kausality/internal/await"
)

// answered headers of a review.
func answered(d *Drain) http.Header {
	w := httptest.NewRecorder()
	d.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mutate", nil))
	return w.Header()
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Drain{Delay: 5 * time.Second}
		ctx, end := context.WithCancel(t.Context())
		late, cancel := d.After(ctx)
		defer cancel()
		assert.NoError(t, d.Ready(nil))
		assert.Empty(t, answered(d).Get("Connection"))

		end()
		synctest.Wait()
		assert.ErrorIs(t, d.Ready(nil), errEnding, "no new connections from the moment it has to end")
		assert.Equal(t, "close", answered(d).Get("Connection"), "each open connection gets one more answer")
		await.Sleep(4 * time.Second)
		synctest.Wait()
		assert.NoError(t, late.Err(), "it goes on answering while its address is taken out of the Service")
		await.Sleep(2 * time.Second)
		synctest.Wait()
		assert.ErrorIs(t, late.Err(), context.Canceled)
	})
}
