package cli

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/admission/clock"
)

// TestTUIRefused covers KR-17-24: without a terminal, in one that is too narrow, without rights and without CRDs it ends with one line and a code of its own.
func TestTUIRefused(t *testing.T) {
	size := func(width, height int) func() (int, int, error) {
		return func() (int, int, error) { return width, height, nil }
	}
	cases := map[string]struct {
		reason string
		tty    func() (int, int, error)
		plain  bool
		drifts int
		code   int
		line   string
	}{
		"NoTerminal": {reason: "standard output is a pipe", tty: nil, code: exitUsage,
			line: "error: tui takes a terminal, and standard input or output is none (as in a pipe, or in a job); use kubectl kausality pending\n"},
		"NoSize": {reason: "the terminal has no size", tty: func() (int, int, error) { return 0, 0, errors.New("no size") }, code: exitUsage,
			line: "error: tui takes a terminal, and standard input or output is none (no size); use kubectl kausality pending\n"},
		"Narrow": {reason: "20 columns", tty: size(20, 24), code: exitUsage,
			line: "error: the terminal has 20 columns and 24 rows; it takes at least 40 and 10: widen it, or use kubectl kausality tui --plain\n"},
		"NoRights": {reason: "changes may not be listed", tty: size(80, 24), drifts: http.StatusForbidden, code: exitUnread,
			line: "error: cannot list drifts: drifts is forbidden; the ClusterRole kausality-viewer grants that to those it is bound to\n"},
		"NoRightsPlain": {reason: "the same line by line, in any width", tty: size(20, 24), plain: true, drifts: http.StatusForbidden, code: exitUnread,
			line: "error: cannot list drifts: drifts is forbidden; the ClusterRole kausality-viewer grants that to those it is bound to\n"},
		"NoCRDs": {reason: "they are not served", tty: size(80, 24), drifts: http.StatusNotFound, code: exitFailure,
			line: "error: cannot list drifts: the API server does not serve them; is Kausality installed? (kausality manifests --crds-only)\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
					w.WriteHeader(http.StatusCreated)
					_, _ = w.Write([]byte(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"hans"}}}`))
					return
				}
				w.WriteHeader(tc.drifts)
				reason := map[int]string{http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound"}[tc.drifts]
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"drifts is forbidden","reason":"` + reason + `"}`))
			}))
			defer api.Close()
			file := filepath.Join(t.TempDir(), "config")
			require.NoError(t, os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, current-context: prod, contexts: [{name: prod, context: {cluster: c}}],
				clusters: [{name: c, cluster: {server: "`+api.URL+`"}}]}`), 0o600))
			flags := genericclioptions.NewConfigFlags(true)
			flags.KubeConfig = &file
			in, _ := io.Pipe() // a user who does not type
			s := &session{IOStreams: genericiooptions.IOStreams{In: in, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}, kube: flags, version: "v1"}
			s.view.now = clock.Now
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			var errOut bytes.Buffer
			code := Finish(&errOut, runs(&tuiCommand{session: s, tty: tc.tty, plain: tc.plain})(cmd, nil))
			assert.Equal(t, tc.code, code, tc.reason)
			assert.Equal(t, tc.line, errOut.String(), tc.reason)
		})
	}
}
