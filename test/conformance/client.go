package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// client sends HTTP requests to the API server, since scenarios are about the
// parts of requests and responses that typed clients hide: field managers,
// warnings, codes.
type client struct {
	base   string
	http   *http.Client
	mapper meta.ResettableRESTMapper
	// groups that every actor is in.
	groups []string
}

func newClient(cfg *rest.Config, groups []string) (*client, error) {
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, h)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	base := cfg.Host
	if !strings.Contains(base, "://") {
		base = "https://" + base
	}
	return &client{base: strings.TrimSuffix(base, "/"), http: h, groups: groups,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))}, nil
}

// request to the API server.
type request struct {
	method      string
	path        string
	query       url.Values
	contentType string
	body        any
	// as is nil for the suite itself, which is allowed everything.
	as *Actor
	// auditID under which the API server logs it.
	auditID string
}

// answer of the API server.
type answer struct {
	code     int
	warnings []string
	body     map[string]any
	// decided are the audit annotations of a request whose answer was not
	// expected.
	decided map[string]string
}

func (a *answer) ok() bool { return a.code < 300 }

func (a *answer) String() string {
	out := fmt.Sprintf("HTTP %d, warnings %q", a.code, a.warnings)
	if !a.ok() {
		out = fmt.Sprintf("HTTP %d %s: %s", a.code, text(a.body["reason"]), text(a.body["message"]))
	}
	if a.decided != nil {
		out += fmt.Sprintf("; decided %q", a.decided)
	}
	return out
}

func (c *client) do(ctx context.Context, r request) (*answer, error) {
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("cannot encode the request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	u := c.base + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u, body)
	if err != nil {
		return nil, err
	}
	c.headers(req.Header, r)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // The body was only read.
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{code: resp.StatusCode, warnings: warnings(resp.Header)}
	if json.Unmarshal(raw, &a.body) != nil {
		a.body = map[string]any{"message": string(raw)}
	}
	return a, nil
}

func (c *client) headers(h http.Header, r request) {
	h.Set("Accept", "application/json")
	h.Set("User-Agent", "conformance")
	if r.contentType != "" {
		h.Set("Content-Type", r.contentType)
	}
	if r.auditID != "" {
		h.Set("Audit-ID", r.auditID)
	}
	if r.as == nil {
		return
	}
	name, groups := r.as.identity()
	h.Set("Impersonate-User", name)
	for _, g := range append(groups, c.groups...) {
		if r.as.Tenant && g == ConformanceGroup {
			g = EditorsGroup
		}
		h.Add("Impersonate-Group", g)
	}
	if r.as.UID != "" {
		h.Set("Impersonate-Uid", r.as.UID)
	}
	for k, values := range r.as.Extra {
		for _, v := range values {
			h.Add("Impersonate-Extra-"+url.PathEscape(k), v)
		}
	}
	if r.as.Agent != "" {
		h.Set("User-Agent", r.as.Agent+"/v0 (conformance)")
	}
}

// identity that the API server authenticates the actor as.
func (a *Actor) identity() (user string, groups []string) {
	if a.ServiceAccount == "" {
		return a.User, a.Groups
	}
	namespace, name, _ := strings.Cut(a.ServiceAccount, "/")
	groups = append([]string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}, a.Groups...)
	return "system:serviceaccount:" + namespace + ":" + name, groups
}

// warnings of an answer: `299 - "text"`.
func warnings(h http.Header) []string {
	var out []string
	for _, w := range h.Values("Warning") {
		_, quoted, ok := strings.Cut(w, `"`)
		if !ok {
			continue
		}
		quoted = strings.TrimSuffix(quoted, `"`)
		out = append(out, strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted))
	}
	return out
}

// place of an object, or of all of a kind where name is empty.
func (c *client) place(gvk schema.GroupVersionKind, namespace, name, subresource string) (path string, namespaced bool, err error) {
	m, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		m, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return "", false, fmt.Errorf("cannot find the resource of %s: %w", gvk.Kind, err)
	}
	parts := []string{"", "apis", gvk.Group, gvk.Version}
	if gvk.Group == "" {
		parts = []string{"", "api", gvk.Version}
	}
	namespaced = m.Scope.Name() == meta.RESTScopeNameNamespace
	if namespaced && namespace != "" {
		parts = append(parts, "namespaces", namespace)
	}
	parts = append(parts, m.Resource.Resource)
	for _, p := range []string{name, subresource} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/"), namespaced, nil
}
