package outbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// file with a text, in a directory of the test.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// TestClient: credentials are sent as their files have them at that time, and not to where a receiver redirects to.
func TestClient(t *testing.T) {
	var got []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Path+" "+r.Header.Get("Authorization"))
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/login", http.StatusFound)
		}
	}))
	defer server.Close()
	ca := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	secret := file(t, "first\n")
	for name, tc := range map[string]struct {
		options Options
		want    [2]string
	}{
		"None":   {options: Options{}},
		"Bearer": {options: Options{TokenFile: secret}, want: [2]string{"Bearer first", "Bearer second"}},
		"Basic": {options: Options{Username: "kausality", PasswordFile: secret}, want: [2]string{
			"Basic " + base64.StdEncoding.EncodeToString([]byte("kausality:first")), "Basic " + base64.StdEncoding.EncodeToString([]byte("kausality:second"))}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(secret, []byte("first\n"), 0o600))
			got = nil
			tc.options.CAFile = ca
			require.NoError(t, tc.options.Check())
			client, err := tc.options.Client(time.Second)
			require.NoError(t, err)
			post := func(path string) int {
				r, err := client.Post(server.URL+path, "text/plain", nil) //nolint:noctx // A test.
				require.NoError(t, err)
				require.NoError(t, r.Body.Close())
				return r.StatusCode
			}
			assert.Equal(t, http.StatusOK, post("/"))
			require.NoError(t, os.WriteFile(secret, []byte("second"), 0o600))
			assert.Equal(t, http.StatusFound, post("/moved"))
			assert.Equal(t, []string{"/ " + tc.want[0], "/moved " + tc.want[1]}, got)
		})
	}
	client, err := Options{TokenFile: "gone", CAFile: ca}.Client(time.Second)
	require.NoError(t, err)
	_, err = client.Get(server.URL) //nolint:noctx,bodyclose // It fails.
	assert.ErrorContains(t, err, "cannot read the credentials")
}

// TestSign by the example of https://www.standardwebhooks.com, and by a key that is not encoded.
func TestSign(t *testing.T) {
	const id, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`
	at := time.Unix(1614265330, 0)
	sign := func(key string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		require.NoError(t, Options{HMACKeyFile: file(t, key)}.Sign(r, id, []byte(body), at))
		return r
	}
	r := sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	assert.Equal(t, id, r.Header.Get("webhook-id"))
	assert.Equal(t, "1614265330", r.Header.Get("webhook-timestamp"))
	assert.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", r.Header.Get("webhook-signature"))

	plain := "a key of thirty-two bytes or so!"
	h := hmac.New(sha256.New, []byte(plain))
	h.Write([]byte(id + ".1614265330." + body))
	assert.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)), sign(plain).Header.Get("webhook-signature"))

	r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	require.NoError(t, Options{}.Sign(r, id, []byte(body), at))
	assert.Empty(t, r.Header)
	assert.Error(t, Options{HMACKeyFile: "gone"}.Sign(r, id, []byte(body), at))
}

// TestCheck: faults are reported by the options.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"Cert":     {options: Options{CertFile: "a"}, want: "cert-file and key-file belong together"},
		"Password": {options: Options{PasswordFile: "a"}, want: "username and password-file belong together"},
		"Both":     {options: Options{Username: "a", PasswordFile: "b", TokenFile: "c"}, want: "exclude each other"},
		"NoFile":   {options: Options{TokenFile: "gone"}, want: "gone: no such file"},
		"ShortKey": {options: Options{HMACKeyFile: file(t, "whsec_AAAA")}, want: "has a key of 3 bytes; it must have at least 24"},
		"NoBase64": {options: Options{HMACKeyFile: file(t, "whsec_?")}, want: "begins with whsec_ and is no base64"},
	} {
		t.Run(name, func(t *testing.T) { assert.ErrorContains(t, tc.options.Check(), tc.want) })
	}
	o := Options{}
	assert.False(t, o.Set("tokenfile", "a"))
	assert.True(t, o.Set("token-file", "a"))
	assert.Equal(t, Options{TokenFile: "a"}, o)
	_, err := Options{CAFile: file(t, "nothing")}.Client(0)
	assert.ErrorContains(t, err, "has no certificate")
}
