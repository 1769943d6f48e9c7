package drift

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

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

// TestRedirect: a report goes to the host that was configured, and a page for signing in accepts none.
func TestRedirect(t *testing.T) {
	asked := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			asked = true
			return
		}
		http.Redirect(w, r, "/login", http.StatusFound)
	}))
	defer server.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	senders, err := NewSenders(Endpoints{URLs: []string{server.URL}, CAFile: ca})
	require.NoError(t, err)
	require.EqualError(t, senders[0].Send(t.Context(), v1alpha1.DriftReport{}), "it answered 302 Found")
	assert.False(t, asked, "the redirection is followed")
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
		"NoPEM":     {endpoints: Endpoints{CAFile: empty}, want: "holds no PEM certificate"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := NewSenders(tc.endpoints)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
