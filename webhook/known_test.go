package webhook

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
	"github.com/kausality-io/function-kausality/webhook/serving"
)

// emptyCluster has nothing, and answers no list before it may.
func emptyCluster(t *testing.T, may <-chan struct{}) *rest.Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("sendInitialEvents"):
			w.WriteHeader(http.StatusBadRequest) // the client lists then
		case r.URL.Query().Has("watch"):
			<-r.Context().Done()
		default:
			select {
			case <-may:
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

// TestNotKnown: a replica that has read neither CRDs nor policies answers no review of a change, so that the failure policy decides, and
// notes no status. A request waits for them, and is decided once they are read (KR-13-76).
func TestNotKnown(t *testing.T) {
	may := make(chan struct{})
	c, err := cluster.New(emptyCluster(t, may))
	require.NoError(t, err)
	noted := 0
	h := &Handler{&decider.Decider{Cluster: c, Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard(),
		StatusReviewed: func(*admission.Request) { noted++ }}}
	server := handlers(h, &serving.Drain{})
	body := update(t, thing(1), thing(2))
	send := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w
	}
	go c.Kinds.Run(t.Context())
	go c.Scope.Run(t.Context())
	go c.Namespaces.Run(t.Context())
	go c.Policies.Run(t.Context())
	for _, path := range []string{PathMutate, PathRollouts} {
		w := send(path)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code, path)
		assert.Contains(t, w.Body.String(), "the CRDs are not read yet; try again", path)
	}
	w := send(PathStatus)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), `"allowed":true`)
	assert.Zero(t, noted)

	time.AfterFunc(200*time.Millisecond, func() { close(may) })
	w = send(PathMutate)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Contains(t, w.Body.String(), `"allowed":true`)
	assert.Equal(t, http.StatusOK, send(PathStatus).Code)
	assert.Equal(t, 1, noted)
}
