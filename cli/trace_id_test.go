package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/trace"
	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/history/query"
)

const (
	tracedShops     = "/apis/example.org/v1/shops"
	tracedDatabases = "/apis/cloud.example.org/v1/databases"
	tracedDrifts    = "/apis/kausality.io/v1alpha1/drifts"
	tracedHistory   = "/api/v1/namespaces/kausality-system/services/https:kausality-history:https/proxy/v1/records"
	tracedBelow     = `{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"","generation":1,"user":"crossplane","timestamp":"2026-01-05T09:00:01Z"}`
	tracedIntent    = `{"apiVersion":"example.org/v1","kind":"Shop","name":"orders","generation":4,"user":"hans",` +
		`"timestamp":"2026-01-05T09:00:00Z","labels":{"ticket":"SHOP-1"}}`
)

// tracedPlane is an API server with a composite and its managed resource, by paths. A value of 403 is one that the user may not read.
func tracedPlane() map[string]string {
	crd := func(group, kind, plural, category string) string {
		return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q},"spec":{"group":%q,`+
			`"scope":"Namespaced","names":{"kind":%q,"plural":%q,"categories":[%q]},"versions":[{"name":"v1","served":true,"storage":true}]}}`,
			plural+"."+group, group, kind, plural, category)
	}
	object := func(apiVersion, kind, name, hops string) string {
		quoted, _ := json.Marshal("[" + hops + "]")
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"team","name":%q,"generation":4,"annotations":{"kausality.io/trace":%s}}}`,
			apiVersion, kind, name, quoted)
	}
	list := func(kind string, items ...string) string {
		return `{"apiVersion":"v1","kind":"` + kind + `List","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
	}
	return map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/apis/authentication.k8s.io/v1/selfsubjectreviews": `{"status":{"userInfo":{"username":"hans"}}}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": list("CustomResourceDefinition", crd("example.org", "Shop", "shops", "composite"),
			crd("cloud.example.org", "Database", "databases", "managed"), crd("example.org", "Other", "others", "")),
		tracedDrifts:    list("Drift"),
		tracedShops:     list("Shop", object("example.org/v1", "Shop", "orders", tracedIntent)),
		tracedDatabases: list("Database", object("cloud.example.org/v1", "Database", "orders-db", tracedIntent+","+tracedBelow)),
	}
}

// runTraced plays a command line against a plane.
func runTraced(t *testing.T, plane map[string]string, args ...string) (out, errOut string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, code := plane[r.URL.Path], http.StatusOK
		if r.Method == http.MethodPost {
			code = http.StatusCreated
		}
		switch body {
		case "":
			code, body = http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not found","code":404}`
		case "403":
			code, body = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"forbidden","code":403}`
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"users":[{"name":"u","user":{"token":"hans"}}],
		"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, server.URL), 0o600))
	streams, _, o, e := genericiooptions.NewTestIOStreams()
	cmd, err := NewCommand(streams, "v1")
	require.NoError(t, err)
	cmd.SetArgs(append([]string{"trace", "--kubeconfig", kubeconfig, "--cache-dir", t.TempDir()}, args...))
	err = cmd.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

// tracedID is the id of the intent on the composite.
func tracedID(t *testing.T) string {
	t.Helper()
	hops, err := trace.Parse("[" + tracedIntent + "]")
	require.NoError(t, err)
	return external.ProvenanceOf(hops, "team").TraceID
}

// TestTraceID covers KR-12-33: whose intent a trace id is of, and what has it.
func TestTraceID(t *testing.T) {
	id := tracedID(t)
	for format, want := range map[string][]string{
		"":     {"Shop team/orders, generation 4, by hans", "ticket: SHOP-1", "└─ Database team/orders-db, generation 1, by crossplane"},
		"wide": {"at 2026-01-05T09:00:00Z"},
		"name": {"database.cloud.example.org/orders-db\nshop.example.org/orders\n"},
		"yaml": {"user: hans", "id: " + id},
		"json": {`"user": "hans"`, `"read": 2`, `"kinds": 2`},
	} {
		args := []string{strings.ToUpper(id)}
		if format != "" {
			args = append(args, "-o", format)
		}
		out, errOut, err := runTraced(t, tracedPlane(), args...)
		require.NoError(t, err, "%s: %s", format, errOut)
		for _, w := range want {
			assert.Contains(t, out, w, format)
		}
	}
	_, _, err := runTraced(t, tracedPlane(), id, "-o", "svg")
	assert.ErrorAs(t, err, &usageError{})

	plane := tracedPlane()
	plane[tracedDatabases] = "403"
	out, errOut, err := runTraced(t, plane, id)
	require.ErrorIs(t, err, errUnread, "there may be more")
	assert.Contains(t, out, "Shop team/orders")
	assert.Contains(t, errOut, "Not read, since you may not list them: databases.cloud.example.org")
}

// TestTraceIDOfNothing covers KR-12-33: what was searched, what could not be, and what to do next.
func TestTraceIDOfNothing(t *testing.T) {
	const id = "0123456789abcdef"
	page := func(list ...records.Record) string {
		p := query.Page{}
		for _, r := range list {
			raw, err := records.Encode(r)
			require.NoError(t, err)
			p.Records = append(p.Records, raw)
		}
		raw, err := json.Marshal(p)
		require.NoError(t, err)
		return string(raw)
	}
	for name, tc := range map[string]struct {
		change func(plane map[string]string)
		want   []string
	}{
		"NoHistory": {want: []string{"nothing has trace id " + id + ": 2 objects of 2 kinds in all namespaces were read", "the history alone, which was not searched",
			"give --history-service or --url"}},
		"Forbidden": {change: func(plane map[string]string) { plane[tracedShops] = "403" },
			want: []string{"1 object of 1 kind in all namespaces were read; not read, since you may not list them: shops.example.org"}},
		"NotInHistory": {change: func(plane map[string]string) { plane[tracedHistory] = page() },
			want: []string{"and all 0 intents of the history since", "give a longer --since"}},
		"Difference": {change: func(plane map[string]string) {
			d := v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: id},
				Spec: v1alpha1.DriftSpec{ID: id,
					Child: v1alpha1.ObjectReference{APIVersion: "cloud.example.org/v1", Kind: "Database", Namespace: "team", Name: "orders-db"}}}
			raw, err := json.Marshal(d)
			require.NoError(t, err)
			plane[tracedDrifts] = `{"apiVersion":"kausality.io/v1alpha1","kind":"DriftList","metadata":{},"items":[` + string(raw) + `]}`
		}, want: []string{"is the id of a difference",
			"did you mean: kubectl kausality explain -n team database.cloud.example.org/orders-db, or kubectl kausality pending -n team"}},
	} {
		t.Run(name, func(t *testing.T) {
			plane := tracedPlane()
			if tc.change != nil {
				tc.change(plane)
			}
			out, _, err := runTraced(t, plane, id)
			require.Error(t, err)
			assert.Empty(t, out)
			for _, w := range tc.want {
				assert.ErrorContains(t, err, w)
			}
			var discard strings.Builder
			assert.Equal(t, exitFailure, Finish(&discard, err))
			assert.False(t, errors.Is(err, errUnread))
		})
	}
}

// TestTraceIDOfAnEarlierIntent covers KR-12-33: the history has it.
func TestTraceIDOfAnEarlierIntent(t *testing.T) {
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC))
	earlier := records.Record{Type: records.TypeIntent, Time: at, Cluster: records.Cluster{Name: "prod-1", UID: "c1"},
		Object: records.Object{APIVersion: "example.org/v1", Kind: "Shop", Namespace: "team", Name: "orders", Generation: 3},
		Trace:  []records.Hop{{Kind: "Shop", Namespace: "team", Name: "orders", Generation: 3, User: "anna"}}}
	earlier.ID = records.ID(earlier.Cluster, earlier.Object, earlier.Type, at.Time)
	raw, err := records.Encode(earlier)
	require.NoError(t, err)
	hop := v1alpha1.Hop{APIVersion: "example.org/v1", Kind: "Shop", Name: "orders", Generation: 3, User: "anna", Timestamp: metav1.NewTime(at.Time)}
	id := external.ProvenanceOf([]v1alpha1.Hop{hop}, "team").TraceID

	plane := tracedPlane()
	plane[tracedHistory] = `{"records":[` + string(raw) + `]}`
	out, errOut, err := runTraced(t, plane, id)
	require.NoError(t, err, errOut)
	assert.Contains(t, out, "Shop team/orders, generation 3, by anna")
	assert.Contains(t, out, "It is an earlier intent, from the history of cluster prod-1")
	assert.Contains(t, out, "kubectl kausality history --graph "+earlier.ID)
	out, _, err = runTraced(t, plane, id, "-o", "json")
	require.NoError(t, err)
	assert.Contains(t, out, `"record": "`+earlier.ID+`"`)
	_, _, err = runTraced(t, plane, id, "--as", "bob")
	assert.ErrorContains(t, err, "the history cannot impersonate")
}
