package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kausality-io/function-kausality/channel/page/hosted"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/page/issuer"
)

const (
	// greta has rights by her group alone, which is deciders at the issuer.
	greta    = "greta@example.com"
	deciders = "oidc:deciders"
	// stranger is a user of the issuer who is not in the configuration.
	stranger = "stranger@example.com"
	// maxHops is how many redirects a login may take; more are a loop.
	maxHops = 8
)

// site is an installation of the page in the cluster, of replicas behind one URL.
type site struct {
	t      *testing.T
	issuer *issuer.Issuer
	config *hosted.Config
	keys   string
	// secret is the file with that of the client.
	secret string
	// ahead is by how much the time of the page is ahead of that of the tests.
	ahead atomic.Int64
	// replicas by their addresses.
	replicas []string
	log      buffer
}

// newSite whose users log in at an issuer of its own.
func newSite(t *testing.T, replicas int) *site {
	t.Helper()
	t.Parallel()
	s := &site{t: t, keys: t.TempDir(), config: &hosted.Config{
		URL: localURL(t), Users: []string{hans, anna, greta, mallory}, Groups: []string{deciders},
		OIDC: &hosted.OIDC{ClientID: issuer.Client, Scopes: []string{"openid", "profile", "email", "offline_access"}, UsernameClaim: "email", GroupsPrefix: "oidc:"},
	}}
	s.issuer = issuer.Start([]string{hans, anna, greta, mallory, stranger}, s.config.URL+"/callback")
	t.Cleanup(s.issuer.Close)
	s.config.OIDC.Issuer = s.issuer.URL
	s.key("key", "k")
	s.secret = filepath.Join(t.TempDir(), "client-secret")
	s.knows(issuer.Secret)
	for range replicas {
		s.replica(as(t))
	}
	return s
}

// localURL of a page at a free port.
func localURL(t *testing.T) string {
	t.Helper()
	port, err := controlplane.FreePort()
	require.NoError(t, err)
	return fmt.Sprintf("http://localhost:%d", port)
}

// accounts of the process, of which each is made once.
var account = sync.OnceValues(func() (string, error) {
	return the.ServiceAccountKubeconfig(context.Background(), home, "kausality-page", impersonation...)
})

// impersonation is what the chart grants for the users of the tests.
var impersonation = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{hans, anna, greta, mallory}, Verbs: []string{"impersonate"}},
	{APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{deciders}, Verbs: []string{"impersonate"}},
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
}

// as is the configuration of the ServiceAccount of the page.
func as(t *testing.T) *rest.Config {
	t.Helper()
	kubeconfig, err := account()
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	return config
}

// key of cookies, of which all bytes are one letter.
func (s *site) key(name, letter string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.keys, name), bytes.Repeat([]byte(letter), 32), 0o600))
}

// knows a secret of the client.
func (s *site) knows(secret string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.secret, []byte(secret+"\n"), 0o600))
}

// replica of the page, whose process acts by a configuration. It is added to the others.
func (s *site) replica(as *rest.Config) {
	s.t.Helper()
	client, err := rest.HTTPClientFor(as)
	require.NoError(s.t, err)
	mapper, err := apiutil.NewDynamicRESTMapper(as, client)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	require.NoError(s.t, s.config.Check())
	h, err := hosted.NewHandler(ctx, hosted.Options{
		Process: cluster.Process{Config: as, Log: s.logger()}, Config: s.config, KeysDir: s.keys, SecretFile: s.secret,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) },
	}, mapper)
	require.NoError(s.t, err)
	server := httptest.NewServer(h)
	s.t.Cleanup(server.CloseClientConnections)
	s.replicas = append(s.replicas, server.Listener.Addr().String())
}

// passes lets time pass for the page.
func (s *site) passes(d time.Duration) { s.ahead.Add(int64(d)) }

// logger of the replicas.
func (s *site) logger() logr.Logger {
	return funcr.New(func(prefix, args string) { s.log.line(prefix + " " + args) }, funcr.Options{})
}

// buffer of a log.
type buffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (b *buffer) line(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all.WriteString(text + "\n")
}

// String returns what was logged.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// visitor is a browser without scripts, of a user who logs in where the issuer wants it.
type visitor struct {
	*site
	user string
	jar  http.CookieJar
	// at is the replica that answers.
	at int
	// token that a proxy adds; empty for none.
	token string
}

// visitor is a new browser of a user.
func (s *site) visitor(user string) *visitor {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	return &visitor{site: s, user: user, jar: jar}
}

// answer is what a browser shows in the end.
type answer struct {
	status int
	body   string
	url    *url.URL
	// hops are the URLs that led there.
	hops []string
}

// open a path of the page.
func (v *visitor) open(path string) answer { return v.at0(v.at, path) }

// at0 opens a path at a replica.
func (v *visitor) at0(replica int, path string) answer {
	v.t.Helper()
	a := v.send(replica, http.MethodGet, v.config.URL+path, nil)
	if a.url.Path == "/login/username" {
		form := url.Values{"id": {a.url.Query().Get("authRequestID")}, "username": {v.user}, "password": {issuer.Password}}
		hops := a.hops
		a = v.send(replica, http.MethodPost, a.url.Scheme+"://"+a.url.Host+a.url.Path, form)
		a.hops = append(hops, a.hops...)
	}
	return a
}

// send a request, and follow where it leads. A loop fails the test.
func (v *visitor) send(replica int, method, to string, form url.Values) (a answer) {
	v.t.Helper()
	client := v.client(replica, func(r *http.Request, via []*http.Request) error {
		a.hops = append(a.hops, r.URL.String())
		if len(via) > maxHops {
			return errors.New("it is a loop of redirects")
		}
		return nil
	})
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(v.t.Context(), method, to, strings.NewReader(form.Encode()))
	require.NoError(v.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	resp, err := client.Do(r)
	if !assert.NoError(v.t, err, "%q", a.hops) {
		v.t.FailNow()
	}
	raw, err := io.ReadAll(resp.Body)
	require.NoError(v.t, errors.Join(err, resp.Body.Close()))
	a.status, a.body, a.url = resp.StatusCode, html.UnescapeString(string(raw)), resp.Request.URL
	return a
}

// client whose connections to the page are to one replica.
func (v *visitor) client(replica int, redirect func(*http.Request, []*http.Request) error) *http.Client {
	u, err := url.Parse(v.config.URL)
	require.NoError(v.t, err)
	return &http.Client{Jar: v.jar, CheckRedirect: redirect, Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == u.Host {
				address = v.replicas[replica]
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
}

// shows: an answer is a page of a status with texts.
func (v *visitor) shows(a answer, status int, want ...string) {
	v.t.Helper()
	assert.Equal(v.t, status, a.status, "%s after %q", a.url, a.hops)
	for _, w := range want {
		assert.Contains(v.t, a.body, w, "%s after %q", a.url, a.hops)
	}
}

// cookies of the page that the browser has, by their names.
func (v *visitor) cookies() map[string]string {
	u, err := url.Parse(v.config.URL)
	require.NoError(v.t, err)
	out := map[string]string{}
	for _, c := range v.jar.Cookies(u) {
		out[c.Name] = c.Value
	}
	return out
}

// visited reports whether an answer led over the issuer.
func (v *visitor) visited(a answer) bool {
	for _, h := range a.hops {
		if strings.HasPrefix(h, v.issuer.URL) {
			return true
		}
	}
	return false
}
