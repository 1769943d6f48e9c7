package webhook

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
	"github.com/kausality-io/function-kausality/webhook/review"
)

// reviewOf a length, with the timeout that the API server announces.
func reviewOf(t *testing.T, body []byte, timeout string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mutate?timeout="+timeout, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// configMap with a value of n characters that take six bytes each in a review.
func configMap(n int) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": map[string]any{"a": strings.Repeat("<", n)}}
}

// TestGreatReview: an object as large as the API server accepts is decided, whatever its encoding (KR-13-28).
func TestGreatReview(t *testing.T) {
	h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard()}}
	for _, n := range []int{700_000, 3 << 20} {
		body := update(t, configMap(n), configMap(n-1))
		if len(body) < 12*n || len(body) > review.MaxReview {
			t.Fatalf("the review has %d bytes", len(body))
		}
		if resp := post(t, h.answer, body, ""); !resp.Allowed || resp.UID == "" {
			t.Errorf("%+v %+v", resp, resp.Result)
		}
	}
}

// TestInflight: reviews wait for the memory of earlier ones, in time for the API server to learn of it; small ones do
// not wait for large ones (KR-13-28).
func TestInflight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, begun, end := review.NewInflight(), make(chan bool), make(chan bool)
		slow := review.Served(func(context.Context, []byte) ctrl.Response { begun <- true; <-end; return ctrl.Allowed("") }, limits, logr.Discard())
		fast := review.Served(func(context.Context, []byte) ctrl.Response { return ctrl.Allowed("") }, limits, logr.Discard())
		large, small := bytes.Repeat([]byte(" "), 20<<20), bytes.Repeat([]byte(" "), 10<<10)
		code := func(h http.Handler, body []byte, timeout string) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, reviewOf(t, body, timeout))
			return w.Code
		}
		var done sync.WaitGroup
		done.Go(func() { code(slow, large, "10s") })
		<-begun
		started := time.Now()
		if got := code(fast, large, "300ms"); got != http.StatusServiceUnavailable {
			t.Errorf("a second large review is answered with %d", got)
		}
		if took := time.Since(started); took >= 300*time.Millisecond {
			t.Errorf("it waited for %s, longer than the API server", took)
		}
		if got := code(fast, small, "300ms"); got != http.StatusOK {
			t.Errorf("a small review is answered with %d", got)
		}
		waiting := make(chan int)
		done.Go(func() { waiting <- code(fast, large, "30s") })
		end <- true
		if got := <-waiting; got != http.StatusOK {
			t.Errorf("a review that waited is answered with %d", got)
		}
		done.Wait()
	})
}

// TestDense: of reviews that take many times their bytes, one is read at a time.
func TestDense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := review.NewInflight()
		dense, plain := bytes.Repeat([]byte(`{"":1},`), 1<<18), bytes.Repeat([]byte("<"), 1<<20)
		release, err := limits.TakeDense(t.Context(), reviewOf(t, nil, "60ms"), dense)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := limits.TakeDense(t.Context(), reviewOf(t, nil, "60ms"), dense); err == nil {
			t.Error("a second one is read")
		}
		if _, err := limits.TakeDense(t.Context(), reviewOf(t, nil, "60ms"), plain); err != nil {
			t.Error(err)
		}
		release()
		if _, err := limits.TakeDense(t.Context(), reviewOf(t, nil, "60ms"), dense); err != nil {
			t.Error(err)
		}
	})
}

// TestInflightMemory: with many of the largest reviews at once, what they have allocated is below 256 MiB (KR-13-28): one is answered at
// a time, and all that it allocates, whether or not it is garbage already, is less.
func TestInflightMemory(t *testing.T) {
	h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard()}}
	body := update(t, configMap(2<<20), configMap(2<<20-1))
	var now, most atomic.Int64
	handler := review.Served(func(ctx context.Context, body []byte) ctrl.Response {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		return h.answer(ctx, body)
	}, review.NewInflight(), logr.Discard())
	answered := func() uint64 {
		request := reviewOf(t, body, "1h")
		w := httptest.NewRecorder()
		w.Body.Grow(len(body))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		handler.ServeHTTP(w, request)
		runtime.ReadMemStats(&after)
		assert.Equal(t, http.StatusOK, w.Code)
		return after.TotalAlloc - before.TotalAlloc
	}
	answered() // what is made once
	alone := answered()
	most.Store(0)
	var done sync.WaitGroup
	for range 20 {
		done.Go(func() { answered() })
	}
	done.Wait()
	t.Logf("%d at a time allocate %d MiB each for a review of %d", most.Load(), alone>>20, len(body)>>20)
	assert.LessOrEqual(t, uint64(most.Load())*alone, uint64(256<<20)) //nolint:gosec // It counts up from zero.
}
