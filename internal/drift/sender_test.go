package drift

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestSend: only 2xx is an acceptance, an answer about the report itself is a refusal, and no error has the URL.
func TestSend(t *testing.T) {
	cases := map[string]struct {
		code           int
		fails, refused bool
	}{
		"Accepted": {code: 204}, "Redirect": {code: 304, fails: true}, "Down": {code: 503, fails: true}, "TooMany": {code: 429, fails: true},
		"Refused": {code: 400, fails: true, refused: true}, "NotFound": {code: 404, fails: true, refused: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			key := ""
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				key = r.Header.Get("Idempotency-Key")
				w.WriteHeader(tc.code)
			}))
			defer server.Close()
			s := &Sender{url: server.URL + "/token", client: server.Client()}
			err := s.Send(t.Context(), v1alpha1.DriftReport{Spec: v1alpha1.DriftReportSpec{ReportID: "a-1-detected"}})
			assert.Equal(t, "a-1-detected", key)
			assert.Equal(t, tc.fails, err != nil)
			refused := (*refusedError)(nil)
			assert.Equal(t, tc.refused, errors.As(err, &refused))
			server.Close()
			if err = s.Send(t.Context(), v1alpha1.DriftReport{}); assert.Error(t, err) {
				assert.NotContains(t, err.Error(), "token")
			}
		})
	}
}

// hostile receivers, by the path: each ends in bounded time and memory.
func hostile(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/redirects":
		http.Redirect(w, r, "/accepts", http.StatusFound)
	case "/hangs":
		<-r.Context().Done()
	case "/trickles":
		w.WriteHeader(http.StatusOK)
		for tick := time.NewTicker(10 * time.Millisecond); r.Context().Err() == nil; <-tick.C {
			_, _ = w.Write([]byte("."))
			_ = http.NewResponseController(w).Flush()
		}
	case "/floods":
		_, _ = w.Write(make([]byte, 10<<20))
	}
}

// certificateUntil a time, of the loopback address and no authority.
func certificateUntil(t *testing.T, end time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// TestHostileReceivers: a report goes to the host that was configured alone, and an attempt ends soon, whatever answers.
func TestHostileReceivers(t *testing.T) {
	start := func(certificate *tls.Certificate) (url, ca string) {
		server := httptest.NewUnstartedServer(http.HandlerFunc(hostile))
		if certificate != nil {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
		}
		server.StartTLS()
		t.Cleanup(server.CloseClientConnections)
		raw := server.Certificate().Raw
		if certificate != nil {
			raw = certificate.Certificate[0]
		}
		ca = filepath.Join(t.TempDir(), "ca.crt")
		require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
		return server.URL, ca
	}
	url, ca := start(nil)
	old := certificateUntil(t, time.Now().Add(-time.Minute))
	expired, expiredCA := start(&old)
	for name, tc := range map[string]struct{ url, ca, want string }{
		"Accepts":   {url: url + "/accepts", ca: ca},
		"Redirects": {url: url + "/redirects", ca: ca, want: "it answered 302 Found"},
		"Hangs":     {url: url + "/hangs", ca: ca, want: "it did not answer within 300ms"},
		"Trickles":  {url: url + "/trickles", ca: ca, want: "it did not answer within 300ms"},
		"Floods":    {url: url + "/floods", ca: ca},
		"Expired":   {url: expired + "/accepts", ca: expiredCA, want: "certificate has expired"},
		"Untrusted": {url: url + "/accepts", ca: expiredCA, want: "certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			if strings.Contains(tc.want, "300ms") {
				timeout = 300 * time.Millisecond
			}
			senders, err := NewSenders(Endpoints{URLs: []string{tc.url}, CAFile: tc.ca, Timeout: timeout})
			require.NoError(t, err)
			err = senders[0].Send(t.Context(), v1alpha1.DriftReport{}) // "Hangs" and "Trickles" end with the test alone, but for the timeout
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// TestSignedReport: a report is sent with the credentials and the signature of its receiver.
func TestSignedReport(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	const key = "a key of thirty-two bytes or so!"
	ca := write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	options := ",token-file=" + write("token", "t0ken") + ",hmac-key-file=" + write("key", key) + ",ca-file=" + ca
	senders, err := NewSenders(Endpoints{URLs: []string{server.URL + "/T0" + options}})
	require.NoError(t, err)
	require.NoError(t, senders[0].Send(t.Context(), v1alpha1.DriftReport{Spec: v1alpha1.DriftReportSpec{ReportID: "a-1-detected"}}))
	assert.Equal(t, "/T0", got.URL.Path)
	assert.Equal(t, "Bearer t0ken", got.Header.Get("Authorization"))
	h := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(h, "a-1-detected.%s.%s", got.Header.Get("Webhook-Timestamp"), body)
	assert.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)), got.Header.Get("Webhook-Signature"))
}

// TestNames: a receiver is named by its host and a hash, since its URL may be a secret.
func TestNames(t *testing.T) {
	one, other := "https://hooks.example.org/T0/secret", "https://hooks.example.org/T1/secret"
	senders, err := NewSenders(Endpoints{URLs: []string{one, other, one}})
	require.NoError(t, err)
	names := Names(senders)
	require.Len(t, names, 2, "each URL once")
	assert.NotEqual(t, names[0], names[1])
	for _, n := range names {
		assert.Regexp(t, `^hooks\.example\.org/[0-9a-f]{8}$`, n)
	}
}

// TestNewSenders: faults of the flags are reported by their names.
func TestNewSenders(t *testing.T) {
	dir := t.TempDir()
	empty, good := filepath.Join(dir, "empty.crt"), filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(good, raw, 0o600))
	cases := map[string]struct {
		endpoints Endpoints
		want      string
	}{
		"Valid":     {endpoints: Endpoints{URLs: []string{"https://a:8443/drift"}, CAFile: good}},
		"PlainHTTP": {endpoints: Endpoints{URLs: []string{"http://a/drift"}}, want: "--drift-webhook-url"},
		"NoHost":    {endpoints: Endpoints{URLs: []string{"https:///drift"}}, want: "--drift-webhook-url"},
		"NoFile":    {endpoints: Endpoints{CAFile: filepath.Join(dir, "none")}, want: "--drift-webhook-ca-file"},
		"NoPEM":     {endpoints: Endpoints{CAFile: empty}, want: "has no certificate"},
		"Option":    {endpoints: Endpoints{URLs: []string{"https://a/secret,tokenfile=a"}}, want: `--drift-webhook-url, number 1: option "tokenfile" is unknown`},
		"Files":     {endpoints: Endpoints{URLs: []string{"https://a/secret,username=a"}}, want: "username and password-file belong together"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := NewSenders(tc.endpoints)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
			assert.NotContains(t, err.Error(), "secret", "a URL may be one")
		})
	}
}
