package hosted

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-logr/logr"
	"golang.org/x/oauth2"

	"github.com/kausality-io/function-kausality/channel"
)

const (
	// loginFor is how long a login may take.
	loginFor = 10 * time.Minute
	// issuerTimeout of one request to the issuer.
	issuerTimeout = 10 * time.Second
	// discoverEvery is how often an issuer that did not answer is tried.
	discoverEvery = 5 * time.Second
	// callbackPath is where the issuer leads back to, welcomePath what follows a login.
	callbackPath, welcomePath = "/callback", "/welcome"
)

// login at an OIDC issuer: the code flow with PKCE (KR-17-29).
type login struct {
	config *OIDC
	// redirect URI of the client, and secret, which returns that of a confidential client.
	redirect string
	secret   func() (string, error)
	client   *http.Client
	now      func() time.Time

	known atomic.Pointer[issuer]
	// mu is held while the issuer is discovered.
	mu     sync.Mutex
	failed error
	tried  time.Time
	log    logr.Logger
}

// issuer as it was discovered.
type issuer struct {
	*oidc.Provider
	verifier *oidc.IDTokenVerifier
	// revocation is where refresh tokens are revoked, end where the user ends the session there; empty for nowhere.
	revocation, end string
	// style is how the client authenticates.
	style oauth2.AuthStyle
}

// issuerError is that the issuer does not answer, or not as it should.
type issuerError struct{ error }

// Unwrap implements errors.Unwrap.
func (e *issuerError) Unwrap() error { return e.error }

// issuer returns the issuer, which is discovered once.
func (l *login) issuer() (*issuer, error) {
	if known := l.known.Load(); known != nil {
		return known, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.known.Load(); known != nil {
		return known, nil
	}
	if l.failed != nil && l.now().Before(l.tried.Add(discoverEvery)) {
		return nil, l.failed
	}
	defer func() { l.tried = l.now() }() // those that have waited try no more
	// The provider keeps the context, and reads the keys of the issuer again with it: it is that of no request.
	p, err := oidc.NewProvider(oidc.ClientContext(context.Background(), l.client), l.config.Issuer)
	if err != nil {
		l.failed = &issuerError{fmt.Errorf("cannot reach the issuer: %w", err)}
		return nil, l.failed
	}
	more := struct {
		Revocation string   `json:"revocation_endpoint"`
		End        string   `json:"end_session_endpoint"`
		Methods    []string `json:"token_endpoint_auth_methods_supported"`
	}{}
	if err := p.Claims(&more); err != nil {
		l.failed = &issuerError{fmt.Errorf("cannot read the configuration of the issuer: %w", err)}
		return nil, l.failed
	}
	known := &issuer{Provider: p, verifier: p.Verifier(&oidc.Config{ClientID: l.config.ClientID, Now: l.now}), revocation: more.Revocation, end: more.End,
		style: oauth2.AuthStyleInHeader}
	if len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		known.style = oauth2.AuthStyleInParams
	}
	if known.revocation == "" {
		l.log.Info("the issuer revokes no refresh tokens: a cookie that was copied counts until its session is over, also once its user has left",
			"after", sessionFor.String())
	}
	l.known.Store(known)
	return known, nil
}

// reach returns the issuer, and the client there.
func (l *login) reach() (*issuer, *oauth2.Config, error) {
	at, err := l.issuer()
	if err != nil {
		return nil, nil, err
	}
	secret, err := l.secret()
	if err != nil {
		return nil, nil, err
	}
	scopes := l.config.Scopes
	if len(scopes) == 0 {
		scopes = defaultScopes
	}
	endpoint := at.Endpoint()
	if endpoint.AuthStyle = at.style; secret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return at, &oauth2.Config{ClientID: l.config.ClientID, ClientSecret: secret, Endpoint: endpoint, RedirectURL: l.redirect, Scopes: scopes}, nil
}

// pending login, in a cookie of the browser that began it.
type pending struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	// To is the path of the page that the user wants to see.
	To string `json:"to"`
}

// begin returns a login, and the URL of the issuer where the user goes on. A login that the browser has begun in another tab is continued: whichever
// is ended first counts.
func (l *login) begin(to string, begun pending) (p pending, at string, err error) {
	_, c, err := l.reach()
	if err != nil {
		return p, "", err
	}
	if p = begun; p.State == "" {
		p = pending{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	}
	p.To = to
	return p, c.AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier)), nil
}

// grant is what the issuer grants: who the user is, and by what that is determined again.
type grant struct {
	Person
	// refresh token; empty for none.
	refresh string
	// until is when the token expires that shows it.
	until time.Time
}

// end ends a login by the code that the issuer has given.
func (l *login) end(ctx context.Context, p pending, code string) (grant, error) {
	is, c, err := l.reach()
	if err != nil {
		return grant{}, err
	}
	ctx = oidc.ClientContext(ctx, l.client)
	token, err := c.Exchange(ctx, code, oauth2.VerifierOption(p.Verifier))
	if err != nil {
		return grant{}, answered(err)
	}
	return l.granted(ctx, is, c, token, p.Nonce, "")
}

// again determines again who a user is, by a refresh token.
func (l *login) again(ctx context.Context, refresh string) (grant, error) {
	is, c, err := l.reach()
	if err != nil {
		return grant{}, err
	}
	ctx = oidc.ClientContext(ctx, l.client)
	token, err := c.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return grant{}, answered(err)
	}
	return l.granted(ctx, is, c, token, "", refresh)
}

// granted returns what tokens of an issuer grant; the refresh token also with an error, since the one before may not count any more. Who the user is show
// the claims of the ID token, and those of the userinfo endpoint where it lacks some, as an issuer may decide, or where a refresh yields no ID token.
func (l *login) granted(ctx context.Context, is *issuer, c *oauth2.Config, token *oauth2.Token, nonce, refresh string) (g grant, err error) {
	claims := map[string]any{}
	raw, _ := token.Extra("id_token").(string)
	switch {
	case raw != "":
		id, err := is.verifier.Verify(ctx, raw)
		if err != nil && strings.Contains(err.Error(), "fetching keys") { // the verifier has no type for that
			return g, &issuerError{fmt.Errorf("cannot read the keys of the issuer: %w", err)}
		}
		if err != nil {
			return g, fmt.Errorf("the ID token does not count: %w", err)
		}
		if nonce != "" && id.Nonce != nonce {
			return g, errors.New("the ID token is of another login")
		}
		if err := id.Claims(&claims); err != nil {
			return g, fmt.Errorf("cannot read the ID token: %w", err)
		}
		g.until = id.Expiry
	case nonce != "":
		return g, errors.New("the issuer has sent no ID token")
	default:
		g.until = token.Expiry
	}
	if g.refresh = token.RefreshToken; g.refresh == "" {
		g.refresh = refresh
	}
	if l.config.lacks(claims) && is.UserInfoEndpoint() != "" {
		if err := addUserInfo(ctx, is, c.TokenSource(ctx, token), claims); err != nil {
			return g, err
		}
	}
	if g.Person, err = l.config.person(claims); err != nil {
		return g, &refusedError{err.Error()}
	}
	return g, nil
}

// addUserInfo adds the claims of the userinfo endpoint to those of the ID token, which win.
func addUserInfo(ctx context.Context, is *issuer, by oauth2.TokenSource, claims map[string]any) error {
	info, err := is.UserInfo(ctx, by)
	if err != nil {
		return answered(err)
	}
	if subject, has := claims["sub"]; has && subject != info.Subject {
		return errors.New("the userinfo endpoint of the issuer answers with the claims of another user")
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return fmt.Errorf("cannot read the claims of the user: %w", err)
	}
	for name, value := range more {
		if _, has := claims[name]; !has {
			claims[name] = value
		}
	}
	return nil
}

// errRevoked is that the issuer does not take a code or a refresh token, or not any more.
var errRevoked = errors.New("the issuer does not accept it")

// answered returns the error of an issuer: errRevoked where it has refused the code or the refresh token, else an issuerError.
func answered(err error) error {
	refused := (*oauth2.RetrieveError)(nil)
	if errors.As(err, &refused) && refused.ErrorCode == "invalid_grant" { // RFC 6749, 5.2; anything else is no verdict about the user
		return fmt.Errorf("%w: %s", errRevoked, channel.Clip(strings.TrimSpace(refused.ErrorCode+" "+refused.ErrorDescription)))
	}
	return &issuerError{fmt.Errorf("the issuer does not answer as it should: %w", err)}
}

// revoke revokes a refresh token, where the issuer has that (RFC 7009).
func (l *login) revoke(ctx context.Context, refresh string) error {
	is, c, err := l.reach()
	if err != nil || is.revocation == "" || refresh == "" {
		return err
	}
	form := url.Values{"token": {refresh}, "token_type_hint": {"refresh_token"}}
	if c.ClientSecret == "" {
		form.Set("client_id", c.ClientID)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, is.revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("cannot revoke the session at the issuer: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.ClientSecret != "" {
		r.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return fmt.Errorf("cannot revoke the session at the issuer: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // Nothing of it is read.
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("cannot revoke the session at the issuer: it answers %s", resp.Status)
	}
	return nil
}

// leave returns where the user ends the session at the issuer, too; empty for nowhere.
func (l *login) leave() string {
	is := l.known.Load() // which is known to those who have a page
	if is == nil || is.end == "" {
		return ""
	}
	return is.end + "?" + url.Values{"client_id": {l.config.ClientID}}.Encode()
}
