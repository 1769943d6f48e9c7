package serving

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnswers: a listener alone, whose connections are accepted by the kernel, is not ready.
func TestAnswers(t *testing.T) {
	l, err := Listen("127.0.0.1:0", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errNoCertificate })
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, Answers(l)((&http.Request{}).WithContext(ctx)), "the webhook does not answer")
	require.NoError(t, l.Close())
	assert.ErrorContains(t, Answers(l)(&http.Request{}), "the webhook does not answer")
}
