package cli

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/history/query"
)

var update = flag.Bool("update", false, "rewrite what is expected")

// storyRecords, newest first.
func storyRecords(t *testing.T) (out []json.RawMessage) {
	t.Helper()
	at := metav1.NewMicroTime(time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC))
	cluster := records.Cluster{Name: "prod-1", UID: "c1"}
	database := records.Object{APIVersion: "example.org/v1", Kind: "XDatabase", Namespace: "shop", Name: "orders"}
	instance := records.Object{APIVersion: "cloud.example.org/v1", Kind: "Instance", Name: "orders-x7"}
	trace := []records.Hop{{Kind: "XDatabase", Name: "orders", User: "anna"}, {Kind: "Instance", Name: "orders-x7", User: "crossplane"}}
	for n, r := range []records.Record{
		{Type: records.TypeIntent, Object: database, Actor: &records.Actor{User: "anna"}, Operation: "UPDATE", Paths: []string{"spec.size"}},
		{Type: records.TypeDriftHeld, Object: instance, Trace: trace, Actor: &records.Actor{User: "crossplane"}, Reason: "Drift",
			Paths: []string{"spec.forProvider.size"}, Causes: []records.Cause{{Kind: "CompositionRevision", Name: "xdatabases-7"}}},
		{Type: records.TypeVote, Object: database, Actor: &records.Actor{User: "=cmd()"}, Approvers: []records.Approver{{User: "=cmd()"}}, Message: "fine\n\x1b[31m"},
		{Type: records.TypeGateOpened, Object: instance, Trace: trace, External: "arn:x", Verbs: []string{"Create", "Update"}},
	} {
		r.Time, r.Cluster = metav1.NewMicroTime(at.Add(time.Duration(n)*time.Minute)), cluster
		r.ID = records.ID(r.Cluster, r.Object, r.Type, r.Time.Time)
		raw, err := records.Encode(r)
		require.NoError(t, err)
		out = append([]json.RawMessage{raw}, out...)
	}
	return out
}

// fakeHistory answers with pages of two records, and holds what it was sent.
type fakeHistory struct {
	mu       sync.Mutex
	list     []json.RawMessage
	requests []*http.Request
	// answered is called after each answer, with how many there were; nil for nothing.
	answered func(n int)
}

func (f *fakeHistory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
	if f.answered != nil {
		defer func() { f.answered(len(f.requests)) }()
	}
	if r.Header.Get("Authorization") == "" && r.Header.Get(historyToken) == "" {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"reason":"Unauthorized","message":"give a token"}`))
		return
	}
	if strings.Contains(r.URL.Path, "/v1/graph/") {
		_ = json.NewEncoder(w).Encode(query.Graph{Records: f.list})
		return
	}
	from, page := 0, query.Page{}
	if r.URL.Query().Has("cursor") {
		_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &from)
	}
	to := min(from+2, len(f.list))
	if page.Records = f.list[from:to]; to < len(f.list) {
		page.Next = fmt.Sprint(to)
	}
	_ = json.NewEncoder(w).Encode(page)
}

// run a command line against a history, with a token or without one.
func (f *fakeHistory) run(ctx context.Context, t *testing.T, token string, proxy bool, args ...string) (out, errOut string, err error) {
	t.Helper()
	srv := httptest.NewTLSServer(f)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	kubeconfig := filepath.Join(dir, "config")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"users":[{"name":"u","user":{"token":%q}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q,"tls-server-name":"example.com"}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, token, srv.URL, ca), 0o600))
	args = append([]string{"history", "--kubeconfig", kubeconfig}, args...)
	if !proxy {
		// The certificate of the test server is of example.com, and so is the Service here.
		args = append(args, "--url", srv.URL, "--url-ca-file", ca, "--history-service", "com/example")
	}
	streams, _, o, e := genericiooptions.NewTestIOStreams()
	cmd, err := NewCommand(streams, "v1")
	require.NoError(t, err)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

// TestHistory: what is printed in each format, over all pages (KR-16-45).
func TestHistory(t *testing.T) {
	for name, args := range map[string][]string{"table": nil, "csv": {"-o", "csv"}, "json": {"-o", "json"}, "yaml": {"-o", "yaml"}, "graph": {"--graph", "x"}} {
		f := &fakeHistory{list: storyRecords(t)}
		out, _, err := f.run(t.Context(), t, "anna", true, args...)
		require.NoError(t, err, name)
		file := filepath.Join("testdata", "history-"+name+".txt")
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), out, "%s: run with -update if it is as it should be", name)
		require.NotContains(t, out, "\x1b")
	}
}

// TestHistoryRequest: flags are parameters, and the token is in a header that the proxy passes on (KR-16-45).
func TestHistoryRequest(t *testing.T) {
	f := &fakeHistory{list: storyRecords(t)}
	out, errOut, err := f.run(t.Context(), t, "anna", true, "--since", "1d", "--initiator", "a", "--approver", "b", "--cause", "c", "--external", "d",
		"--type", "Vote", "--in-cluster", "e", "--limit", "2")
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(out, "\n"))
	require.Contains(t, errOut, "--limit 0")
	r := f.requests[0]
	require.Equal(t, "/api/v1/namespaces/kausality-system/services/https:kausality-history:https/proxy/v1/records", r.URL.Path)
	require.Equal(t, "Bearer anna", r.Header.Get(historyToken))
	got, err := query.Parse(r.URL.Query())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(-24*time.Hour), got.Since, time.Minute)
	got.Since = time.Time{}
	require.Equal(t, query.Request{Filter: query.Filter{Initiator: "a", Approver: "b", Cause: "c", External: "d", Type: "Vote", Cluster: "e"}, Limit: 2}, got)
}

// TestHistoryErrors: what is wrong with a command line, and what to do without a token.
func TestHistoryErrors(t *testing.T) {
	f := &fakeHistory{}
	for want, args := range map[string][]string{
		"--graph":              {"--graph", "x", "--watch"},
		"--limit":              {"--limit", "-1"},
		"--as":                 {"--as", "hans"},
		"https://":             {"--url", "http://h"},
		"--output":             {"-o", "svg"},
		"NAMESPACE/NAME":       {"--history-service", "x"},
		"TYPE/NAME":            {"x"},
		"--since":              {"--since", "soon"},
		"kubectl port-forward": {},
	} {
		token := "t"
		if len(args) == 0 {
			token = ""
		}
		out, _, err := f.run(t.Context(), t, token, true, args...)
		require.ErrorContains(t, err, want)
		require.Empty(t, out, "an error is not an empty history")
	}
}

// TestHistoryWatch: records that arrive are printed once each, oldest first, until the end (KR-16-45).
func TestHistoryWatch(t *testing.T) {
	all := storyRecords(t)
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeHistory{list: all[2:]}
	f.answered = func(n int) {
		f.list = all
		if n >= 4 { // two pages once more: each record was printed
			cancel()
		}
	}
	out, _, err := f.run(ctx, t, "anna", true, "--watch", "-o", "json")
	require.NoError(t, err)
	var want strings.Builder
	for _, n := range []int{2, 3, 1, 0} {
		fmt.Fprintf(&want, "%s\n", all[n])
	}
	require.Equal(t, want.String(), out)
}
