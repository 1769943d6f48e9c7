package webhook

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drain{delay: 5 * time.Second}
		ctx, end := context.WithCancel(t.Context())
		late, cancel := d.after(ctx)
		defer cancel()
		assert.NoError(t, d.ready(nil))

		end()
		synctest.Wait()
		assert.ErrorIs(t, d.ready(nil), errEnding, "no new connections from the moment it is told to end")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		assert.NoError(t, late.Err(), "it goes on answering while its address is taken out of the Service")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.ErrorIs(t, late.Err(), context.Canceled)
	})
}
