package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/admission/clock"
)

// TestUI covers KR-17-13: the page is on loopback, opens in the browser, and ends with the command.
func TestUI(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"hans"}}}`))
	}))
	defer api.Close()
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, current-context: prod, contexts: [{name: prod, context: {cluster: c}}],
		clusters: [{name: c, cluster: {server: "`+api.URL+`"}}]}`), 0o600))
	for name, opened := range map[string]error{"Browser": nil, "NoBrowser": errors.New("no such program")} {
		t.Run(name, func(t *testing.T) {
			streams, _, out, errOut := genericiooptions.NewTestIOStreams()
			flags := genericclioptions.NewConfigFlags(true)
			flags.KubeConfig = &file
			urls := make(chan string, 1)
			s := &session{IOStreams: streams, kube: flags, version: "v1"}
			s.view.now = clock.Now
			c := &uiCommand{session: s, open: func(_ context.Context, url string) error {
				urls <- url
				return opened
			}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cmd := &cobra.Command{}
			cmd.SetContext(ctx)
			ended := make(chan error, 1)
			go func() { ended <- runs(c)(cmd, nil) }()
			url := <-urls
			assert.True(t, strings.HasPrefix(url, "http://127.0.0.1:"), url)
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			client := &http.Client{Jar: jar, Timeout: 10 * time.Second}
			r, err := client.Get(url)
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			assert.Equal(t, http.StatusOK, r.StatusCode)
			cancel()
			require.NoError(t, <-ended)
			assert.Equal(t, url+"\n", out.String())
			assert.Equal(t, opened != nil, strings.Contains(errOut.String(), "No browser was opened (no such program)"), errOut)
			_, err = client.Get(url) //nolint:bodyclose // There is none.
			require.Error(t, err, "the page has ended")
		})
	}
}

// TestLeadTo covers KR-17-13: the URL is in a file that the user alone may read, and that goes with the command.
func TestLeadTo(t *testing.T) {
	const url = "http://127.0.0.1:8090/0123/enter?token=4567"
	file, end, err := leadTo(url)
	require.NoError(t, err)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(raw), `content="0; url=`+url+`"`)
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), path)
	}
	end()
	assert.NoDirExists(t, filepath.Dir(file))
}
