package undecided

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTransport: what could not be decided is sent again with its body, and everything else is not.
func TestTransport(t *testing.T) {
	const (
		parent = `{"kind":"Status","code":500,"details":{"causes":[{"reason":"ParentUnreadable"}]}}`
		late   = `{"kind":"Status","code":500,"message":"admission webhook denied the request: kausality: cannot decide while the watches are late: timeout"}`
	)
	for name, tc := range map[string]struct {
		answers []string
		sent    int
		code    int
	}{
		"Decided":         {answers: []string{"stored"}, sent: 1, code: http.StatusOK},
		"Parent":          {answers: []string{parent, "stored"}, sent: 2, code: http.StatusOK},
		"Late":            {answers: []string{late, late, "stored"}, sent: 3, code: http.StatusOK},
		"OtherError":      {answers: []string{"500 of the API server", "stored"}, sent: 1, code: http.StatusInternalServerError},
		"NeverDecided":    {answers: slices.Repeat([]string{parent}, tries+1), sent: tries, code: http.StatusInternalServerError},
		"ThenAnyOther":    {answers: []string{parent, "500 of the API server"}, sent: 2, code: http.StatusInternalServerError},
		"RefusedAtOnce":   {answers: []string{"403 Drift", "stored"}, sent: 1, code: http.StatusForbidden},
		"RefusedAtSecond": {answers: []string{late, "403 Drift", "stored"}, sent: 2, code: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				raw, _ := io.ReadAll(req.Body)
				bodies = append(bodies, string(raw))
				answer := tc.answers[len(bodies)-1]
				switch {
				case strings.HasPrefix(answer, "403"):
					w.WriteHeader(http.StatusForbidden)
				case answer != "stored":
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = io.WriteString(w, answer)
			}))
			defer server.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL, strings.NewReader("change"))
			require.NoError(t, err)
			res, err := transport{next: http.DefaultTransport}.RoundTrip(req)
			require.NoError(t, err)
			raw, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, tc.code, res.StatusCode)
			require.Equal(t, tc.answers[tc.sent-1], string(raw))
			require.Len(t, bodies, tc.sent)
			for _, body := range bodies {
				require.Equal(t, "change", body)
			}
		})
	}
}
