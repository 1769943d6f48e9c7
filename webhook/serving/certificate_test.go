package serving

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kausality-io/function-kausality/internal/certs"
)

// tlsSecret with a new certificate.
func tlsSecret(t *testing.T) (*corev1.Secret, []byte) {
	t.Helper()
	state, _, err := certs.Rotation{Hosts: []string{"127.0.0.1"}}.Step(certs.State{}, time.Now())
	require.NoError(t, err)
	key, err := x509.MarshalECPrivateKey(state.Serving.Key)
	require.NoError(t, err)
	return &corev1.Secret{Data: map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: state.Serving.Certificate.Raw}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	}}, state.Serving.Certificate.Raw
}

// TestSecret: the certificate of a Secret is served from when it is read; one that cannot be used leaves the
// one before in service (KR-12-06).
func TestSecret(t *testing.T) {
	s := &Secret{log: logr.Discard()}
	assert.ErrorIs(t, s.Ready(nil), errNoCertificate)
	first, raw := tlsSecret(t)
	s.read(first)
	assert.NoError(t, s.Ready(nil))
	served := func() []byte {
		c, err := s.Get(nil)
		require.NoError(t, err)
		return c.Certificate[0]
	}
	assert.Equal(t, raw, served())
	s.read(&corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: []byte("no certificate")}})
	assert.Equal(t, raw, served(), "the previous one is served on")
	second, next := tlsSecret(t)
	s.read(second)
	assert.Equal(t, next, served())
}
