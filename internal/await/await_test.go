package await

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// failing records how a test fails.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// why a wait fails; empty where it does not.
func why(t *testing.T, wait func(testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait(f)
	}()
	<-done
	return f.why
}

func TestSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Signal
		var n atomic.Int64
		looked := 0
		go func() {
			for range 3 {
				synctest.Wait()
				n.Add(1)
				s.Raise()
			}
		}()
		s.Until(t, "three", func() bool { looked++; return n.Load() == 3 })
		assert.LessOrEqual(t, looked, 4, "it is read when something has changed")
		began := time.Now()
		assert.Equal(t, "waited 1m0s for more", why(t, func(t testing.TB) { s.Until(t, "more", func() bool { return false }) }))
		assert.Equal(t, limit, time.Since(began))
	})
}

func TestChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := make(chan int, 2)
		c <- 7
		assert.Equal(t, 7, Next(t, "numbers", c))
		assert.Equal(t, "waited 1m0s for numbers", why(t, func(t testing.TB) { Next(t, "numbers", c) }))
		assert.Equal(t, "waited 1m0s for the end of numbers", why(t, func(t testing.TB) { Closed(t, "numbers", c) }))
		c <- 8
		close(c)
		Closed(t, "numbers", c)
		assert.Equal(t, "there is none of numbers any more", why(t, func(t testing.TB) { Next(t, "numbers", c) }))
	})
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Poll(t, "a second", func() bool { return time.Since(began) >= time.Second })
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, "waited 1m0s for it", why(t, func(t testing.TB) { Poll(t, "it", func() bool { return false }) }))
	})
}

func TestSleep(t *testing.T) {
	assert.Panics(t, func() { Sleep(0) })
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Bool
		time.AfterFunc(time.Minute, func() { done.Store(true) })
		began := time.Now()
		Sleep(time.Minute)
		assert.True(t, done.Load())
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
