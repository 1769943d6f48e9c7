package serving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/certs"
)

// TestAnswers: a listener alone, whose connections are accepted by the kernel, is not ready.
func TestAnswers(t *testing.T) {
	l, err := Listen("127.0.0.1:0", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errNoCertificate }, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, Answers(l, nil)((&http.Request{}).WithContext(ctx)), "the webhook does not answer")
	require.NoError(t, l.Close())
	assert.ErrorContains(t, Answers(l, nil)(&http.Request{}), "the webhook does not answer")
}

// clientCertificate signed by itself, and the same as an authority in PEM.
func clientCertificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: rand.Text()}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A server with a file of authorities serves clients with a certificate of one, and no others; the file is read
// again when it changes (KR-13-11).
func TestClientCA(t *testing.T) {
	state, _, err := certs.Rotation{Hosts: []string{"127.0.0.1"}}.Step(certs.State{}, time.Now())
	require.NoError(t, err)
	server := &tls.Certificate{Certificate: [][]byte{state.Serving.Certificate.Raw}, PrivateKey: state.Serving.Key}
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(state.Bundle()))
	client, bundle := clientCertificate(t)
	next, nextBundle := clientCertificate(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	_, err = NewClientCA(file)
	require.ErrorContains(t, err, "--client-ca-file")
	require.NoError(t, os.WriteFile(file, bundle, 0o600))
	clients, err := NewClientCA(file)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- clients.Start(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
	l, err := Listen("127.0.0.1:0", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return server, nil }, clients)
	require.NoError(t, err)
	s := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { assert.NoError(t, s.Close()) })

	served := func(certificates ...tls.Certificate) bool {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+l.Addr().String(), nil)
		require.NoError(t, err)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return false
		}
		return assert.NoError(t, resp.Body.Close()) && resp.StatusCode == http.StatusTeapot
	}
	assert.NoError(t, Answers(l, clients)(&http.Request{}))
	assert.False(t, served(), "no certificate")
	assert.False(t, served(next), "a certificate of another authority")
	assert.True(t, served(client), "a certificate of the authority")
	require.NoError(t, os.WriteFile(file, nextBundle, 0o600))
	await.Poll(t, "the file to be read again", func() bool { return served(next) })
	assert.False(t, served(client), "an authority that is not in the file any more")
}
