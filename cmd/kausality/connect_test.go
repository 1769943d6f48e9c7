package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestConnect: the error distinguishes an API server that does not answer from one
// that does not authenticate the user; a missing permission is waited for.
func TestConnect(t *testing.T) {
	cases := map[string]struct {
		reason string
		codes  []int
		want   string
	}{
		"Allowed":      {reason: "it answers", codes: []int{200}},
		"NoRolesYet":   {reason: "an API server that has just started", codes: []int{403, 200}},
		"Unauthorized": {reason: "the credentials are unknown", codes: []int{401}, want: "does not accept the credentials"},
		"Unreachable":  {reason: "it does not answer", codes: nil, want: "cannot reach the API server"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				code := tc.codes[min(int(calls.Add(1)), len(tc.codes))-1]
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				reason := map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 401: metav1.StatusReasonUnauthorized}[code]
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
					Code: int32(code), Reason: reason, Message: `forbidden: User "gate" cannot get path "/version"`})
			}))
			defer s.Close()
			if tc.codes == nil {
				s.Close()
			}
			file := filepath.Join(t.TempDir(), "kubeconfig")
			text := `{apiVersion: v1, kind: Config, clusters: [{name: it, cluster: {server: "` + s.URL +
				`"}}], contexts: [{name: it, context: {cluster: it}}], current-context: it}`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := (&processFlags{kubeconfig: file}).connect(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want %q, got %v", tc.reason, tc.want, err)
			}
			if tc.codes != nil && int(calls.Load()) != len(tc.codes) {
				t.Errorf("%s: it sent %d requests", tc.reason, calls.Load())
			}
		})
	}
}
