// Package issuer is a small OIDC server for tests: pkg/op of zitadel/oidc with the storage of its example, of which tests change the users, their groups,
// the key, and what it does wrong.
package issuer

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
	"golang.org/x/oauth2"
)

const (
	// Client is the client of the page, Other one of another application.
	Client, Other = "kausality-page", "other"
	// Secret of both.
	Secret = "secret of the client"
	// Password of all users.
	Password = "password"
)

// Issuer that runs.
type Issuer struct {
	*httptest.Server
	storage *store
}

// Start an issuer with users by their e-mail addresses, and the redirect URIs of both clients. The caller closes it.
func Start(users []string, redirects ...string) *Issuer {
	i := &Issuer{}
	var handler http.Handler
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.answer(handler, w, r) }))
	i.storage = newStore(users, redirects)
	handler = exampleop.SetupServer(i.URL, i.storage, slog.New(slog.DiscardHandler), false)
	return i
}

// SetGroups of a user. They are in the ID token where inToken, else at the userinfo endpoint alone.
func (i *Issuer) SetGroups(user string, inToken bool, groups ...string) {
	i.storage.mu.Lock()
	defer i.storage.mu.Unlock()
	i.storage.groups[user], i.storage.inToken = groups, inToken
}

// ReplaceKey that signs, without notice.
func (i *Issuer) ReplaceKey() {
	i.storage.mu.Lock()
	defer i.storage.mu.Unlock()
	i.storage.key = newKey()
}

// Remove a user, whose refresh tokens do not count any more.
func (i *Issuer) Remove(user string) {
	i.storage.mu.Lock()
	defer i.storage.mu.Unlock()
	i.storage.removed[user] = true
}

// SetDown has it answer 503.
func (i *Issuer) SetDown(down bool) {
	i.storage.mu.Lock()
	defer i.storage.mu.Unlock()
	i.storage.down = down
}

// SetClock has it issue tokens as of another time: by how much its clock is ahead; negative where it is behind.
func (i *Issuer) SetClock(ahead time.Duration) {
	i.storage.mu.Lock()
	defer i.storage.mu.Unlock()
	i.storage.ahead = ahead
}

// Substitute the ID tokens of answers, as one who is in between; empty for not.
func (i *Issuer) Substitute(idToken string) {
	i.storage.mu.Lock()
	defer i.storage.mu.Unlock()
	i.storage.substitute = idToken
}

// IDToken is one that a client gets for a user who logs in there.
func (i *Issuer) IDToken(client, user, redirect string) (string, error) {
	c := oauth2.Config{ClientID: client, ClientSecret: Secret, RedirectURL: redirect, Scopes: []string{"openid", "email"},
		Endpoint: oauth2.Endpoint{AuthURL: i.URL + "/auth", TokenURL: i.URL + "/oauth/token"}}
	code := ""
	browser := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if code = r.URL.Query().Get("code"); code != "" {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	at, err := browser.Get(c.AuthCodeURL("state"))
	if err != nil {
		return "", err
	}
	form := url.Values{"id": {at.Request.URL.Query().Get("authRequestID")}, "username": {user}, "password": {Password}}
	ended, err := browser.PostForm(i.URL+"/login/username", form)
	if err := errors.Join(err, at.Body.Close()); err != nil {
		return "", err
	}
	token, err := c.Exchange(context.Background(), code)
	if err = errors.Join(err, ended.Body.Close()); err != nil {
		return "", fmt.Errorf("cannot log in at %s: %w", ended.Request.URL, err)
	}
	id, _ := token.Extra("id_token").(string)
	return id, nil
}

// Revoked is how many refresh tokens were revoked.
func (i *Issuer) Revoked() int {
	i.storage.mu.Lock()
	defer i.storage.mu.Unlock()
	return i.storage.revoked
}

// answer a request as the OIDC server does, unless it is down or its answers are changed on the way.
func (i *Issuer) answer(h http.Handler, w http.ResponseWriter, r *http.Request) {
	s := i.storage
	s.mu.Lock()
	down, substitute := s.down, s.substitute
	s.mu.Unlock()
	switch {
	case down:
		http.Error(w, "it is being maintained", http.StatusServiceUnavailable)
	case substitute != "" && r.URL.Path == "/oauth/token":
		substituted(h, w, r, substitute)
	default:
		h.ServeHTTP(w, r)
	}
}

// substituted answers with another ID token.
func substituted(h http.Handler, w http.ResponseWriter, r *http.Request, idToken string) {
	recorded := httptest.NewRecorder()
	h.ServeHTTP(recorded, r)
	answer := map[string]any{}
	raw, err := io.ReadAll(recorded.Body)
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer["id_token"] = idToken
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(recorded.Code)
	_ = json.NewEncoder(w).Encode(answer)
}

// store is the storage of the example, with what tests change.
type store struct {
	*storage.Storage
	users users

	mu         sync.Mutex
	groups     map[string][]string
	inToken    bool
	removed    map[string]bool
	key        *key
	ahead      time.Duration
	down       bool
	substitute string
	revoked    int
}

func newStore(names, redirects []string) *store {
	s := &store{users: users{}, groups: map[string][]string{}, removed: map[string]bool{}, key: newKey(), inToken: true}
	for _, name := range names {
		s.users[name] = &storage.User{ID: name, Username: name, Password: Password, Email: name, EmailVerified: true}
	}
	s.Storage = storage.NewStorageWithClients(s.users, map[string]*storage.Client{
		Client: storage.WebClient(Client, Secret, redirects...), Other: storage.WebClient(Other, Secret, redirects...),
	})
	return s
}

// users by their names.
type users map[string]*storage.User

// GetUserByID implements storage.UserStore.
func (u users) GetUserByID(id string) *storage.User { return u[id] }

// GetUserByUsername implements storage.UserStore.
func (u users) GetUserByUsername(name string) *storage.User { return u[name] }

// ExampleClientID implements storage.UserStore.
func (users) ExampleClientID() string { return "service" }

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest: the claims of an ID token.
func (s *store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	s.mu.Lock()
	groups := s.groups[token.GetSubject()]
	if !s.inToken {
		groups = nil
	}
	s.mu.Unlock()
	if groups != nil {
		info.AppendClaims("groups", groups)
	}
	return s.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
}

// SetUserinfoFromToken implements op.Storage: the claims of the userinfo endpoint.
func (s *store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	s.mu.Lock()
	groups := slices.Clone(s.groups[subject])
	s.mu.Unlock()
	info.AppendClaims("groups", groups)
	return s.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin)
}

// TokenRequestByRefreshToken implements op.Storage: a user who was removed has none.
func (s *store) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	r, err := s.Storage.TokenRequestByRefreshToken(ctx, token)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed[r.GetSubject()] {
		return nil, fmt.Errorf("there is no user %s any more", r.GetSubject())
	}
	return r, nil
}

// RevokeToken implements op.Storage.
func (s *store) RevokeToken(ctx context.Context, token, user, client string) *oidc.Error {
	s.mu.Lock()
	s.revoked++
	s.mu.Unlock()
	return s.Storage.RevokeToken(ctx, token, user, client)
}

// SigningKey implements op.Storage.
func (s *store) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key, nil
}

// KeySet implements op.Storage.
func (s *store) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []op.Key{public{s.key}}, nil
}

// GetClientByClientID implements op.Storage.
func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return client{c, s.ahead}, nil
}

// client whose ID tokens are as of another time.
type client struct {
	op.Client
	ahead time.Duration
}

// IDTokenLifetime implements op.Client.
func (c client) IDTokenLifetime() time.Duration { return c.Client.IDTokenLifetime() + c.ahead }

// key that signs.
type key struct {
	id      string
	private *rsa.PrivateKey
}

func newKey() *key {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &key{rand.Text(), private}
}

// SignatureAlgorithm implements op.SigningKey.
func (*key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

// Key implements op.SigningKey.
func (k *key) Key() any { return k.private }

// ID implements op.SigningKey.
func (k *key) ID() string { return k.id }

// public key of the set.
type public struct{ *key }

// Algorithm implements op.Key.
func (public) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }

// Use implements op.Key.
func (public) Use() string { return "sig" }

// Key implements op.Key.
func (p public) Key() any { return &p.private.PublicKey }
