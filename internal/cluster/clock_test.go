package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/clock"
)

// TestClocks: each answer of the API server sets the time of decisions (KR-13-25). It puts it right again at the end, since all
// tests of the package share it.
func TestClocks(t *testing.T) {
	var ahead time.Duration
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(srv.Close)
	c, err := New(&rest.Config{Host: srv.URL})
	require.NoError(t, err)
	for _, ahead = range []time.Duration{2 * time.Minute, -2 * time.Minute, 0} {
		_, err := c.Self(t.Context(), logr.Discard())
		require.Error(t, err)
		assert.InDelta(t, ahead.Seconds(), time.Until(clock.Now()).Seconds(), 2)
		skew, known := clock.Skew()
		assert.True(t, known)
		assert.InDelta(t, ahead.Seconds(), skew.Seconds(), 2)
	}
}
