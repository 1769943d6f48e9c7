package page

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/page/hosted"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/page/issuer"
)

const (
	// fresh is more than how long a user counts before the issuer determines again who it is.
	fresh = 6 * time.Minute
	// waits is a title that the first page has.
	waits = "What waits"
)

// TestHosted covers KR-17-28 and KR-17-29: a user without a kubeconfig logs in at the issuer, approves a change as that user by the rights of that user,
// and leaves, after which neither the cookie nor the refresh token counts.
func TestHosted(t *testing.T) {
	s := newFixture(t, "hosted")
	s.settled("orders")
	s.revision("hosted-7f3")
	s.refused("hosted-7f3", "gold", "orders")
	address, i := startPage(t)
	b := newTab(t, 0)
	b.goTo(address + "/")
	b.login(hans)
	b.awaits(waits, "hosted-7f3", "Leave")
	assert.Equal(t, address+"/", b.address())
	b.click("hosted-7f3")
	b.click("hosted-orders")
	b.click("Approve once")
	b.awaits("What it will do", "annotation kausality.io/approve-")
	b.click("Approve once")
	b.awaits("Approved.")
	s.passes("hosted-7f3", "gold", "orders")
	mr, err := s.of(s.hans, databases).Get(t.Context(), s.mrName("orders"), metav1.GetOptions{})
	require.NoError(t, err)
	trace := mr.GetAnnotations()[v1alpha1.AnnotationKeyTrace]
	assert.Contains(t, trace, hans, "the trace names who approved it")
	assert.Contains(t, trace, `"page"`)
	b.click("Leave")
	b.awaits("You have left")
	wait.For(t, "the refresh token to be revoked", wait.Patience, func(context.Context) error {
		if i.Revoked() == 0 {
			return errors.New("none was revoked")
		}
		return nil
	})
	b.goTo(address + "/")
	b.awaits("Username")
}

// login at the issuer that the browser was led to.
func (b *tab) login(user string) {
	b.t.Helper()
	b.awaits("Username")
	before := b.document()
	b.run(chromedp.SendKeys("#username", user, chromedp.ByQuery), chromedp.SendKeys("#password", issuer.Password, chromedp.ByQuery),
		chromedp.Click("button[type=submit]", chromedp.ByQuery))
	b.leaves(before)
}

// startPage starts kausality page, with https where there are arguments, and returns its URL and the issuer, which is its own.
func startPage(t *testing.T, args ...string) (address string, i *issuer.Issuer) {
	t.Helper()
	address = localURL(t)
	listen := strings.TrimPrefix(address, "http://")
	if len(args) > 0 {
		address = "https://" + listen
	}
	i = issuer.Start([]string{hans}, address+"/callback")
	t.Cleanup(i.Close)
	dir := t.TempDir()
	config, err := yaml.Marshal(hosted.Config{URL: address, ClusterName: "tests", Users: []string{hans}, OIDC: &hosted.OIDC{Issuer: i.URL, ClientID: issuer.Client,
		Scopes: []string{"openid", "profile", "email", "offline_access"}, UsernameClaim: "email"}})
	require.NoError(t, err)
	for name, content := range map[string][]byte{"config.yaml": config, "keys/key": []byte(strings.Repeat("k", 32)), "client-secret": []byte(issuer.Secret)} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	kubeconfig, err := account()
	require.NoError(t, err)
	cmd := exec.Command(the.bins[parts.Kausality], "page", "--kubeconfig="+kubeconfig, "--config-file="+filepath.Join(dir, "config.yaml"),
		"--cookie-keys-dir="+filepath.Join(dir, "keys"), "--oidc-client-secret-file="+filepath.Join(dir, "client-secret"),
		"--bind-address="+listen, "--default-mode=enforce")
	cmd.Args = append(cmd.Args, args...)
	require.NoError(t, the.component(context.Background(), "page"+strings.TrimPrefix(listen, "localhost:"), cmd))
	return address, i
}

// TestHostedTLS covers KR-17-29: a certificate that is replaced is served without a restart, and cookies are for https and this host alone.
func TestHostedTLS(t *testing.T) {
	t.Parallel()
	certs := t.TempDir()
	require.NoError(t, the.CA().ServingCert(certs))
	address, _ := startPage(t, "--cert-dir="+certs)
	authority, err := os.ReadFile(filepath.Join(certs, "ca.crt"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority))
	serial := func() string {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Get(address + "/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusSeeOther, resp.StatusCode)
		for _, c := range resp.Cookies() {
			assert.True(t, c.Secure && c.HttpOnly && c.Path == "/" && c.Domain == "" && strings.HasPrefix(c.Name, "__Host-"), c.String())
		}
		assert.NotEmpty(t, resp.Cookies())
		return resp.TLS.PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	require.NoError(t, the.CA().ServingCert(certs))
	wait.For(t, "the replaced certificate to be served", wait.Patience, func(context.Context) error {
		if serial() == before {
			return errors.New("it is the one before")
		}
		return nil
	})
}

// TestHostedUsers covers KR-17-28: who may log in, and with which groups; one who has no rights sees that, and one who is not listed does not get in.
func TestHostedUsers(t *testing.T) {
	s := newSite(t, 1)
	s.issuer.SetGroups(greta, true, "deciders", "others")
	require.NoError(t, bindDeciders())
	v := s.visitor(hans)
	v.shows(v.open("/coverage?x=1"), http.StatusOK, "Coverage", hans)
	v = s.visitor(mallory)
	v.shows(v.open("/"), http.StatusForbidden, "You may not read that")
	v = s.visitor(stranger)
	v.shows(v.open("/"), http.StatusForbidden, "You have logged in as "+stranger, "Its administrator lists users")
	assert.NotContains(t, v.cookies(), "kausality-session")
	v = s.visitor(greta)
	v.shows(v.open("/"), http.StatusOK, waits, greta)
}

// bindDeciders lets the group look.
var bindDeciders = sync.OnceValue(func() error {
	client, err := kubernetes.NewForConfig(the.Config())
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(context.Background(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "deciders"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: deciders}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kausality-viewer"},
	}, metav1.CreateOptions{})
	return err
})

// TestHostedGroupTaken covers KR-17-29: a group that the issuer takes away during a session does not count after five minutes, whether it is in ID tokens
// or at the userinfo endpoint; a user who is removed is logged out.
func TestHostedGroupTaken(t *testing.T) {
	s := newSite(t, 1)
	require.NoError(t, bindDeciders())
	for _, inToken := range []bool{true, false} {
		s.issuer.SetGroups(greta, inToken, "deciders")
		v := s.visitor(greta)
		v.shows(v.open("/"), http.StatusOK, waits)
		s.issuer.SetGroups(greta, inToken)
		v.shows(v.open("/"), http.StatusOK, waits)
		s.passes(fresh)
		a := v.open("/")
		v.shows(a, http.StatusForbidden, "You may not read that")
		assert.False(t, v.visited(a), "the session goes on")
	}
	v := s.visitor(hans)
	v.shows(v.open("/"), http.StatusOK, waits)
	s.issuer.Remove(hans)
	s.passes(fresh)
	a := v.open("/coverage")
	assert.True(t, v.visited(a), "the user logs in again: %q", a.hops)
	assert.Contains(t, s.log.String(), "a session has ended")
}

// TestHostedTokens covers KR-17-29: an ID token of another application, or one that has expired, is no login, and leads into no loop; a key that the issuer
// replaces without notice is read again.
func TestHostedTokens(t *testing.T) {
	s := newSite(t, 1)
	v := s.visitor(hans)
	other, err := s.issuer.IDToken(issuer.Other, hans, s.config.URL+"/callback")
	require.NoError(t, err)
	s.issuer.Substitute(other)
	v.shows(v.open("/"), http.StatusBadRequest, "The login does not count", "audience", "Log in again")
	s.issuer.Substitute("")
	s.issuer.SetClock(-3 * time.Hour)
	v.shows(v.open("/"), http.StatusBadRequest, "The login does not count", "token is expired", "The clocks of the issuer and of this cluster may differ")
	s.issuer.SetClock(0)
	assert.NotContains(t, v.cookies(), "kausality-session")
	v.shows(v.open("/"), http.StatusOK, waits)
	s.issuer.ReplaceKey()
	s.passes(fresh)
	a := v.open("/")
	v.shows(a, http.StatusOK, waits)
	assert.False(t, v.visited(a), "the session goes on")
	v = s.visitor(anna)
	v.shows(v.open("/"), http.StatusOK, waits, anna)
}

// TestHostedReplay covers KR-17-29: a code counts once, and in the browser alone that began the login.
func TestHostedReplay(t *testing.T) {
	s := newSite(t, 2)
	v := s.visitor(hans)
	a := v.open("/")
	v.shows(a, http.StatusOK, waits)
	callback := ""
	for _, h := range a.hops {
		if strings.Contains(h, "/callback?") {
			callback = strings.TrimPrefix(h, s.config.URL)
		}
	}
	require.NotEmpty(t, callback)
	other := s.visitor(mallory)
	other.shows(other.open(callback), http.StatusBadRequest, "This login is over")
	v.shows(v.open(callback), http.StatusOK, waits) // the same browser goes on with its session

	// A browser that has begun a login and is led to the callback with another state, or with a code that was used.
	begun := s.visitor(anna)
	begun.begin()
	q, err := url.ParseQuery(strings.SplitN(callback, "?", 2)[1])
	require.NoError(t, err)
	begun.shows(begun.open(callback), http.StatusBadRequest, "This login is over")
	state := begun.begin()
	q.Set("state", state)
	begun.shows(begun.open("/callback?"+q.Encode()), http.StatusBadRequest, "The login does not count")
	assert.NotContains(t, begun.cookies(), "kausality-session")
	begun.shows(begun.open("/"), http.StatusOK, waits, anna)
}

// begin a login without going on at the issuer, and return its state.
func (v *visitor) begin() (state string) {
	v.t.Helper()
	client := v.client(v.at, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse })
	defer client.CloseIdleConnections()
	resp, err := client.Get(v.config.URL + "/")
	require.NoError(v.t, err)
	require.NoError(v.t, resp.Body.Close())
	at, err := resp.Location()
	require.NoError(v.t, err)
	return at.Query().Get("state")
}

// TestHostedTabs covers KR-17-29: a browser that opens two pages logs in on both; a site that leads it to the callback cancels no login.
func TestHostedTabs(t *testing.T) {
	s := newSite(t, 1)
	v := s.visitor(hans)
	first := v.begun("/")
	second := v.begun("/coverage")
	v.shows(v.send(0, http.MethodGet, s.config.URL+"/callback?state=x&code=y", nil), http.StatusBadRequest, "This login is over")
	for _, login := range []string{first, second} {
		a := v.ends(login)
		v.shows(a, http.StatusOK)
		assert.Equal(t, strings.TrimPrefix(s.config.URL, "http://"), a.url.Host)
	}
	v.shows(v.open("/coverage"), http.StatusOK, "Coverage", hans)
}

// begun is the page of the issuer that a path leads to.
func (v *visitor) begun(path string) string {
	v.t.Helper()
	return v.send(v.at, http.MethodGet, v.config.URL+path, nil).url.String()
}

// ends a login on that page.
func (v *visitor) ends(page string) answer {
	v.t.Helper()
	u, err := url.Parse(page)
	require.NoError(v.t, err)
	form := url.Values{"id": {u.Query().Get("authRequestID")}, "username": {v.user}, "password": {issuer.Password}}
	return v.send(v.at, http.MethodPost, u.Scheme+"://"+u.Host+u.Path, form)
}

// TestHostedRedirects covers KR-17-29: no request leads a user to another host than that of the page and the issuer.
func TestHostedRedirects(t *testing.T) {
	s := newSite(t, 1)
	allowed := map[string]bool{strings.TrimPrefix(s.config.URL, "http://"): true, strings.TrimPrefix(s.issuer.URL, "http://"): true}
	for _, path := range []string{"//evil.example/", "/%5cevil.example", "/\\evil.example", "/welcome?to=https://evil.example", "/welcome?to=//evil.example",
		"/?to=https://evil.example", "/callback?to=https://evil.example&state=&code=", "/.//evil.example", "//evil.example/%2e%2e", "/coverage//evil.example/.."} {
		for _, logged := range []bool{false, true} {
			v := s.visitor(hans)
			if logged {
				v.shows(v.open("/"), http.StatusOK, waits)
			}
			a := v.open(path)
			for _, hop := range append(a.hops, a.url.String()) {
				u, err := url.Parse(hop)
				require.NoError(t, err)
				assert.True(t, allowed[u.Host], "%s leads to %s", path, hop)
			}
			assert.NotContains(t, a.body, `href="//`, path)
			assert.NotContains(t, a.body, `href="https://evil`, path)
		}
	}
	v := s.visitor(hans)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.replicas[0]+"/", nil)
	require.NoError(t, err)
	r.Host = "evil.example"
	resp, err := v.client(0, nil).Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode)
}

// TestHostedReplicas covers KR-17-30: any replica answers any request: a login that another one began, a session of another one, and two of them at the time
// at which the issuer determines again who the user is, which takes a refresh token once.
func TestHostedReplicas(t *testing.T) {
	s := newSite(t, 2)
	v := s.visitor(hans)
	state := v.begin() // at the first
	require.NotEmpty(t, state)
	v.shows(v.at0(1, "/"), http.StatusOK, waits)
	v.shows(v.at0(0, "/coverage"), http.StatusOK, "Coverage")
	for range 2 {
		s.passes(fresh)
		answers := make([]answer, 8)
		var all sync.WaitGroup
		for n := range answers {
			all.Go(func() { answers[n] = v.at0(n%2, "/") })
		}
		all.Wait()
		for _, a := range answers {
			v.shows(a, http.StatusOK, waits)
		}
		a := v.at0(0, "/")
		v.shows(a, http.StatusOK, waits)
		assert.False(t, v.visited(a), "the session goes on: %q", a.hops)
	}
}

// TestHostedKeys covers KR-17-30: a key that is replaced ends no session; a cookie of another installation, or one that the browser does not keep, leads
// into no loop.
func TestHostedKeys(t *testing.T) {
	s := newSite(t, 1)
	v := s.visitor(hans)
	v.shows(v.open("/"), http.StatusOK, waits)
	s.key("key", "n")
	s.key("before", "k")
	s.replica(as(t))
	a := v.at0(1, "/")
	v.shows(a, http.StatusOK, waits)
	assert.False(t, v.visited(a), "the session goes on")

	require.NoError(t, os.Remove(filepath.Join(s.keys, "before")))
	s.replica(as(t))
	a = v.at0(2, "/")
	v.shows(a, http.StatusOK, waits)
	assert.True(t, v.visited(a), "a cookie of another installation is none")

	forgetful := s.visitor(hans)
	forgetful.jar = forgets{forgetful.jar}
	forgetful.shows(forgetful.at0(2, "/"), http.StatusBadRequest, "The login was not kept", "Your browser has kept no cookie")
}

// forgets the session.
type forgets struct{ http.CookieJar }

// SetCookies implements http.CookieJar.
func (f forgets) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		if c.Name != "kausality-session" {
			f.CookieJar.SetCookies(u, []*http.Cookie{c})
		}
	}
}

// TestHostedIssuerDown covers KR-17-29: while the issuer is down, a login ends on a page that leads nowhere by itself, and a session goes on for a quarter
// of an hour.
func TestHostedIssuerDown(t *testing.T) {
	s := newSite(t, 1)
	v := s.visitor(hans)
	s.issuer.SetDown(true)
	a := v.open("/coverage")
	v.shows(a, http.StatusServiceUnavailable, "The login is not available", "Try again", `href="/coverage"`)
	assert.Empty(t, a.hops)
	s.issuer.SetDown(false)
	s.passes(time.Minute)
	v.shows(v.open("/coverage"), http.StatusOK, "Coverage")
	s.issuer.SetDown(true)
	s.passes(fresh)
	v.shows(v.open("/"), http.StatusOK, waits)
	s.passes(20 * time.Minute)
	v.shows(v.open("/"), http.StatusServiceUnavailable, "The login is not available")
	s.issuer.SetDown(false)
	s.passes(10 * time.Second)
	a = v.open("/")
	v.shows(a, http.StatusOK, waits)
	assert.False(t, v.visited(a), "the session was kept")
	s.knows("another one, since the issuer's was replaced first")
	s.passes(fresh)
	v.shows(v.open("/"), http.StatusOK, waits)
	s.knows(issuer.Secret)
	s.passes(time.Minute)
	a = v.open("/")
	v.shows(a, http.StatusOK, waits)
	assert.False(t, v.visited(a), "a secret that is wrong for a while ends no session")
	s.passes(13 * time.Hour)
	assert.True(t, v.visited(v.open("/")), "a session lasts 12 hours")
}

// TestHostedImpersonation covers KR-17-31: a user whom the roles of the process do not list sees what is wrong, and so does the log.
func TestHostedImpersonation(t *testing.T) {
	s := newSite(t, 0)
	s.config.Users, s.config.ImpersonateAll = nil, true
	require.NotEmpty(t, s.config.Warnings())
	s.replica(as(t))
	v := s.visitor(stranger)
	v.shows(v.open("/"), http.StatusForbidden, "cannot impersonate")
	assert.Contains(t, s.log.String(), "refuses to have this process act as a user")
}

// TestHostedProxy covers KR-17-28: behind a proxy that adds the token of the user, the API server knows who that is; a token of another audience, one that is
// none, and none lead nowhere.
func TestHostedProxy(t *testing.T) {
	s := newSite(t, 0)
	s.config.OIDC, s.config.Users, s.config.Groups = nil, nil, nil
	s.config.BearerTokens = &hosted.BearerTokens{Audiences: []string{"kausality-page"}}
	s.replica(as(t))
	client, err := kubernetes.NewForConfig(the.Config())
	require.NoError(t, err)
	user := "system:serviceaccount:" + home + ":reader"
	_, err = the.ServiceAccountKubeconfig(t.Context(), home, "reader", decides)
	require.NoError(t, err)
	require.NoError(t, the.Bind(t.Context(), user, "kausality-viewer"))
	token := func(audiences ...string) string {
		r, err := client.CoreV1().ServiceAccounts(home).CreateToken(t.Context(), "reader",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
		require.NoError(t, err)
		return r.Status.Token
	}
	const api = "https://kubernetes.default.svc"
	v := s.visitor(user)
	v.shows(v.open("/"), http.StatusUnauthorized, "You are not logged in", "has no bearer token")
	v.token = "no token"
	v.shows(v.open("/"), http.StatusUnauthorized, "does not accept your token")
	v.token = token(api)
	v.shows(v.open("/"), http.StatusUnauthorized, "another audience")
	v.token = token(api, "kausality-page")
	v.shows(v.open("/"), http.StatusOK, waits, user)
	v.token = "" // the cookie of a session is no login
	v.shows(v.open("/"), http.StatusUnauthorized, "has no bearer token")
}
