package webhook

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// TestHearsay: of a kind whose statuses are written by the thousands, one object is
// looked at now and then, three times at most; what is known to be a parent at once.
func TestHearsay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, clock := idleWriter(t)
		defer w.queue.ShutDown()
		ref := func(i int) parent.Ref {
			return parent.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))}
		}
		looked := func(after time.Duration) (out []parent.Ref) {
			time.Sleep(after)
			synctest.Wait()
			for w.queue.Len() > 0 {
				r, _ := w.queue.Get()
				w.queue.Done(r)
				out = append(out, r)
			}
			return out
		}
		for i := range 1000 {
			w.hears(ref(i))
		}
		assert.Empty(t, looked(rumourAge-time.Millisecond), "nobody can have written yet that it is a parent")
		assert.Equal(t, []parent.Ref{ref(0)}, looked(time.Millisecond))
		assert.True(t, w.hearsay.about(ref(0)))
		assert.False(t, w.hearsay.about(ref(1)))
		assert.Equal(t, []time.Duration{3 * rumourAge, rumourOld, 0}, []time.Duration{w.hearsay.again(ref(0)), w.hearsay.again(ref(0)), w.hearsay.again(ref(0))})
		assert.Zero(t, w.hearsay.again(ref(1)))

		w.hears(ref(1))
		assert.Empty(t, looked(rumourAge))
		w.tracker.isParent(&parent.State{Ref: ref(1)})
		w.hears(ref(1))
		assert.Equal(t, []parent.Ref{ref(1)}, looked(0))

		*clock = clock.Add(rumourEvery)
		w.hears(ref(2))
		assert.Equal(t, []parent.Ref{ref(2)}, looked(rumourAge))
	})
}
