package cloudstate

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// TestDatabase: the state after each entry, and what a write changes of it.
func TestDatabase(t *testing.T) {
	entry := func(kind cloud.EntryKind, method, path, body string, code int) cloud.Entry {
		return cloud.Entry{Kind: kind, Method: method, Path: path, Body: json.RawMessage(body), Code: code}
	}
	const of, at, change = cloud.EntryRequest, "/databases/a", "/_control/change"
	d, body := &Database{}, Fields{"size": json.RawMessage("2"), "engine": json.RawMessage(`"postgres"`), "tags": json.RawMessage(`{"by":"x"}`)}
	for _, step := range []struct {
		cloud.Entry
		exists  bool
		size    string
		changed []string // by a write of size 2, engine postgres and tags x
	}{
		{entry(of, http.MethodPut, at, `{"size":1}`, 409), false, "", []string{"engine", "size", "tags"}},
		{entry(of, http.MethodPut, at, `{"size":1}`, 201), true, "1", []string{"size", "tags"}},
		{entry(of, http.MethodPatch, at, `{"size":2,"tags":null}`, 500), true, "1", []string{"size", "tags"}},
		{entry(of, http.MethodPatch, at, `{"size":2,"tags":null}`, 200), true, "2", []string{"tags"}},
		{entry(cloud.EntryBackdoor, http.MethodPost, change, `{"name":"a","tags":{ "by": "x" }}`, 204), true, "2", nil},
		{entry(cloud.EntryBackdoor, http.MethodPost, "/_control/lose", `{"name":"a"}`, 204), false, "", []string{"engine", "size", "tags"}},
		{entry(of, http.MethodPut, at, `{"size":2,"tags":{"by":"x"}}`, 201), true, "2", nil},
		{entry(of, http.MethodDelete, at, "", 204), false, "", []string{"engine", "size", "tags"}},
	} {
		require.Equal(t, "a", NameOf(step.Entry))
		require.NoError(t, d.Take(step.Entry))
		require.Equal(t, step.exists, d.Exists)
		require.Equal(t, step.size, string(d.Fields["size"]))
		require.Equal(t, step.changed, d.Changed(body), "%s %s", step.Method, step.Body)
	}
	require.Empty(t, NameOf(entry(of, http.MethodGet, at, "", 200)))
	require.Error(t, d.Take(entry(of, http.MethodPatch, at, `"text"`, 200)))
}
