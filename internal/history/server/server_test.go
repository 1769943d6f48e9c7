package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/query"
	"github.com/kausality-io/function-kausality/internal/history/storetest"
)

// rights are "USER VERB RESOURCE[.GROUP] NAMESPACE/NAME".
type rights map[string]bool

// broken as a user: the API server does not answer.
const broken = "broken"

func (r rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == broken {
		return authorizer.DecisionNoOpinion, "", errors.New("no answer")
	}
	if r[fmt.Sprintf("%s %s %s %s/%s", a.GetUser().GetName(), a.GetVerb(),
		schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}, a.GetNamespace(), a.GetName())] {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// bearer authenticates each token as the user of its name.
func bearer(r *http.Request) (*authenticator.Response, bool, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if name == "down" {
		return nil, false, apierrors.NewTimeoutError("no answer", 1)
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, ok && name != "wrong", nil
}

// fixture is a server on a store in a file.
type fixture struct {
	*testing.T
	store *history.Store
	http.Handler
}

func newFixture(t *testing.T, allowed ...string) *fixture {
	t.Helper()
	s, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), storetest.Options())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return &fixture{T: t, store: s, Handler: New(s, newAccess(t, allowed), logr.Discard()).Handler()}
}

func newAccess(t *testing.T, allowed []string) *Access {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "example.org", Version: "v1"}, {Group: "cloud.example.org", Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Database"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Instance"}, meta.RESTScopeRoot)
	r := rights{}
	for _, a := range allowed {
		r[a] = true
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prod"), []byte("0123456789abcdef\n"), 0o600))
	tokens, err := ReadTokens(dir)
	require.NoError(t, err)
	return &Access{Authenticator: authenticator.RequestFunc(bearer), Authorizer: r, Mapper: mapper, Cluster: "cluster-1", Tokens: tokens}
}

// do a request with a token.
func (f *fixture) do(token, method, path, contentType, body string) *httptest.ResponseRecorder {
	f.Helper()
	r := httptest.NewRequestWithContext(f.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// batch of records as CloudEvents.
func batch(t *testing.T, list ...records.Record) string {
	t.Helper()
	var events []map[string]any
	for _, d := range storetest.Deliveries(t, list...) {
		events = append(events, map[string]any{"specversion": "1.0", "id": d.ID, "source": "/kausality/x", "type": "y", "data": json.RawMessage(d.Raw)})
	}
	raw, err := json.Marshal(events)
	require.NoError(t, err)
	return string(raw)
}

// get the ids of a page.
func (f *fixture) get(who, values string) (ids []string, next string) {
	f.Helper()
	w := f.do(who, http.MethodGet, "/v1/records?"+values, "", "")
	require.Equal(f, http.StatusOK, w.Code, w.Body.String())
	page := query.Page{}
	require.NoError(f, json.Unmarshal(w.Body.Bytes(), &page))
	return idsOf(f.T, page.Records), page.Next
}

func idsOf(t *testing.T, list []json.RawMessage) []string {
	t.Helper()
	out := []string{}
	for _, raw := range list {
		r, err := records.Decode(raw)
		require.NoError(t, err)
		out = append(out, r.ID)
	}
	return out
}

// TestIngest: the outcome of each batch (KR-16-43), and who may send (KR-16-40).
func TestIngest(t *testing.T) {
	f := newFixture(t, "webhook create records.kausality.io /", "gate create records.kausality.io /")
	r := storetest.Record(1, nil)
	good := batch(t, r)
	for _, tc := range []struct {
		name, token, media, body string
		code                     int
		contains                 string
	}{
		{"Token", "0123456789abcdef", contentBatch, good, 200, `"stored":1`},
		{"Again", "0123456789abcdef", contentBatch + "; charset=utf-8", good, 200, `"known":1`},
		{"OtherSender", "webhook", contentBatch, batch(t, storetest.Record(2, nil)), 200, `"OtherSender"`},
		{"User", "webhook", contentBatch, batch(t, storetest.Record(3, func(r *records.Record) { r.Cluster.UID = "c2" })), 200, `"stored":1`},
		{"OtherUser", "gate", contentBatch, batch(t, storetest.Record(6, func(r *records.Record) { r.Cluster.UID = "c2" })), 200, `"stored":1`},
		{"One", "webhook", contentOne, strings.Trim(batch(t, storetest.Record(4, func(r *records.Record) { r.Cluster.UID = "c2" })), "[]"), 200, `"stored":1`},
		{"Later", "webhook", contentBatch, `[{"specversion":"1.0","id":"x","data":{"schema":"v9"}}]`, 200, `"kept":1`},
		{"Future", "webhook", contentBatch, batch(t, storetest.Record(90000, nil)), 200, `"Future"`},
		{"NoRecord", "webhook", contentBatch, `[{"specversion":"1.0","id":"x","data":7},{"specversion":"1.0","id":"y"}]`, 200, `"Invalid"`},
		{"Empty", "webhook", contentBatch, `[]`, 200, `"stored":0`},
		{"NoToken", "", contentBatch, good, 401, "Unauthorized"},
		{"WrongToken", "wrong", contentBatch, good, 401, "Unauthorized"},
		{"NotAllowed", "anna", contentBatch, good, 403, "Forbidden"},
		{"ReviewFails", "down", contentBatch, good, 503, "Unavailable"},
		{"AccessFails", broken, contentBatch, good, 503, "Unavailable"},
		{"Media", "webhook", "application/json", good, 415, "Content-Type"},
		{"NoJSON", "webhook", contentBatch, "x", 400, "no batch"},
		{"Version", "webhook", contentBatch, `[{"specversion":"0.3"}]`, 400, "specversion"},
		{"Many", "webhook", contentBatch, "[{}" + strings.Repeat(",{}", history.MaxBatch) + "]", 413, "2000"},
		{"Large", "webhook", contentBatch, `["` + strings.Repeat("x", MaxBody) + `"]`, 413, "bytes"},
	} {
		w := f.do(tc.token, http.MethodPost, "/v1/records", tc.media, tc.body)
		require.Equal(t, tc.code, w.Code, "%s: %s", tc.name, w.Body)
		require.Contains(t, w.Body.String(), tc.contains, tc.name)
		if tc.code == 503 {
			require.NotEmpty(t, w.Header().Get("Retry-After"), tc.name)
		}
	}
}

// failing is a store that stores nothing, as on a full disk.
type failing struct{ Store }

func (failing) Insert(context.Context, string, []history.Delivery) (query.Receipt, error) {
	return query.Receipt{}, errors.New("database or disk is full (13): secret path")
}

// TestStoreFails: a batch that cannot be stored is not acknowledged, and why is not shown to the sender (KR-16-42).
func TestStoreFails(t *testing.T) {
	f := &fixture{T: t, Handler: New(failing{}, newAccess(t, nil), logr.Discard()).Handler()}
	w := f.do("0123456789abcdef", http.MethodPost, "/v1/records", contentBatch, batch(t, storetest.Record(1, nil)))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), "secret")
}

// TestSight: users see the records of objects that they may get, auditors all or those of a cluster (KR-16-40).
func TestSight(t *testing.T) {
	f := newFixture(t, "anna get databases.example.org shop/", "bert get databases.example.org shop/orders", "carl list records.kausality.io /",
		"dora get records.kausality.io /cluster-2", "emil get instances.cloud.example.org /")
	orders, users := storetest.Record(1, nil), storetest.Record(2, func(r *records.Record) { r.Object.Name = "users" })
	instance := storetest.Record(3, func(r *records.Record) {
		r.CausedBy, r.Parent = []string{orders.ID}, &orders.Object
		r.Object = records.Object{APIVersion: "cloud.example.org/v1", Kind: "Instance", Name: "x"}
	})
	gone := storetest.Record(4, func(r *records.Record) { r.Object.APIVersion = "gone.example.org/v1" })
	other := storetest.Record(5, func(r *records.Record) { r.Cluster.UID = "cluster-2" })
	_, err := f.store.Insert(t.Context(), "s", storetest.Deliveries(t, orders, users, instance, gone, other))
	require.NoError(t, err)
	for who, want := range map[string][]string{
		"anna": {users.ID, orders.ID}, "bert": {orders.ID}, "carl": {other.ID, gone.ID, instance.ID, users.ID, orders.ID}, "dora": {other.ID},
		"emil": {instance.ID}, "hans": {},
	} {
		ids, next := f.get(who, "")
		require.Equal(t, want, ids, who)
		require.Empty(t, next)
	}
	ids, _ := f.get("anna", "kind=Database.example.org&namespace=shop&name=orders")
	require.Equal(t, []string{orders.ID}, ids, "the record of a child is shown to who may get the child")
	for path, code := range map[string]int{
		"anna " + orders.ID: 200, "anna " + instance.ID: 404, "carl " + instance.ID: 200, "carl none": 404, "hans " + orders.ID: 404,
	} {
		who, id, _ := strings.Cut(path, " ")
		w := f.do(who, http.MethodGet, "/v1/graph/"+id, "", "")
		require.Equal(t, code, w.Code, path)
		require.Equal(t, path == "carl "+instance.ID, strings.Contains(w.Body.String(), instance.ID), path)
	}
	require.Equal(t, 401, f.do("wrong", http.MethodGet, "/v1/records", "", "").Code)
	require.Equal(t, 503, f.do(broken, http.MethodGet, "/v1/records", "", "").Code)
}

// TestPages: pages are bounded, and each visible record is in one, also where most are not visible (KR-16-36).
func TestPages(t *testing.T) {
	f := newFixture(t, "anna get databases.example.org shop/mine")
	var all []history.Delivery
	want := []string{}
	for n := range 300 {
		r := storetest.Record(n, func(r *records.Record) {
			if n%97 == 0 {
				r.Object.Name = "mine"
			}
		})
		all = append(all, storetest.Deliveries(t, r)...)
		if n%97 == 0 {
			want = append([]string{r.ID}, want...)
		}
	}
	_, err := f.store.Insert(t.Context(), "s", all)
	require.NoError(t, err)
	got, pages := []string{}, 0
	for next := ""; pages == 0 || next != ""; pages++ {
		var ids []string
		ids, next = f.get("anna", "limit=2&cursor="+next)
		require.LessOrEqual(t, len(ids), 2)
		got = append(got, ids...)
	}
	require.Equal(t, want, got)
	require.Greater(t, pages, 5, "one answer reads a bounded part of the store")
	for _, bad := range []string{"limit=5000", "nom=x", "cursor=x"} {
		require.Equal(t, 400, f.do("anna", http.MethodGet, "/v1/records?"+bad, "", "").Code, bad)
	}
}

// TestProxyHeader: the token of a user behind the API server's proxy is in a header of its own (KR-16-40).
func TestProxyHeader(t *testing.T) {
	f := newFixture(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/records", http.NoBody)
	r.Header.Set(TokenHeader, "Bearer anna")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	require.Equal(t, 200, w.Code)
}

// TestTokens: short and equal tokens are refused.
func TestTokens(t *testing.T) {
	for name, files := range map[string]map[string]string{"Short": {"a": "short"}, "Equal": {"a": "0123456789abcdef", "b": "0123456789abcdef\n"}} {
		dir := t.TempDir()
		for file, token := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(token), 0o600))
		}
		_, err := ReadTokens(dir)
		require.Error(t, err, name)
	}
}

// FuzzIngest: no body stops the server.
func FuzzIngest(f *testing.F) {
	f.Add([]byte(`[{"specversion":"1.0","id":"x","data":{"schema":"v1alpha1"}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/records", bytes.NewReader(body))
		r.Header.Set("Content-Type", contentBatch)
		_, _ = deliveries(httptest.NewRecorder(), r)
	})
}
