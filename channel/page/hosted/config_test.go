package hosted

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConfig covers KR-17-31: a configuration that is invalid is errors with the names of its fields.
func TestConfig(t *testing.T) {
	const login = "url: https://page.example.org\noidc: {issuer: https://login.example.org, clientID: page}\n"
	for name, tc := range map[string]struct{ text, want string }{
		"Login":       {login + "users: [hans@example.com]\ngroups: [dba]", ""},
		"Tokens":      {"url: https://page.example.org/\nbearerTokens: {audiences: [page]}", ""},
		"Loopback":    {"url: http://localhost:8080\nbearerTokens: {}", ""},
		"Any":         {login + "impersonateAnyone: true", ""},
		"NoUser":      {login, "users: list those who may log in"},
		"System":      {login + "users: ['system:admin']", "never impersonated"},
		"SystemGroup": {login + "users: [hans]\ngroups: [' System:masters']", "never impersonated"},
		"EmptyUser":   {login + "users: ['']", "never impersonated"},
		"Both":        {login + "users: [hans]\nbearerTokens: {}", "one of them alone"},
		"Neither":     {"url: https://page.example.org", "oidc or bearerTokens is required"},
		"TokensUsers": {"url: https://page.example.org\nbearerTokens: {}\nusers: [hans]", "users, groups and impersonateAnyone are of oidc"},
		"HTTP":        {"url: http://page.example.org\nbearerTokens: {}", "must begin with https://"},
		"Path":        {"url: https://page.example.org/kausality\nbearerTokens: {}", "without a path"},
		"Query":       {"url: https://page.example.org?a=b\nbearerTokens: {}", "without a path"},
		"Userinfo":    {"url: https://hans@page.example.org\nbearerTokens: {}", "without a path"},
		"NoURL":       {"bearerTokens: {}", "url: "},
		"Issuer":      {"url: https://page.example.org\noidc: {issuer: http://login.example.org, clientID: page}\nusers: [hans]", "oidc.issuer"},
		"Client":      {"url: https://page.example.org\noidc: {issuer: https://login.example.org}\nusers: [hans]", "oidc.clientID"},
		"Scopes": {"url: https://page.example.org\noidc: {issuer: https://login.example.org, clientID: page, scopes: [email]}\nusers: [hans]",
			"oidc.scopes: openid must be one"},
		"UnknownField": {login + "user: hans", "unknown field"},
		"NotYAML":      {"]", "cannot read the configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(tc.text), 0o600))
			c, err := Load(file)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.ImpersonateAll, len(c.Warnings()) > 0)
		})
	}
	_, err := Load("/no/such/file")
	require.ErrorContains(t, err, "cannot read the configuration")
}

// TestPerson covers KR-17-29: users and groups are those of the claims, with prefixes, as the API server has them.
func TestPerson(t *testing.T) {
	email := &OIDC{UsernameClaim: "email", UsernamePrefix: "oidc:", GroupsPrefix: "oidc:"}
	for name, tc := range map[string]struct {
		of     *OIDC
		claims map[string]any
		want   Person
		err    string
	}{
		"Sub":      {of: &OIDC{Issuer: "https://a"}, claims: map[string]any{"sub": "1234"}, want: Person{User: "https://a#1234"}},
		"NoPrefix": {of: &OIDC{Issuer: "https://a", UsernamePrefix: "-"}, claims: map[string]any{"sub": "1234"}, want: Person{User: "1234"}},
		"Mail":     {of: &OIDC{Issuer: "https://a", UsernameClaim: "email"}, claims: map[string]any{"email": "h@a"}, want: Person{User: "h@a"}},
		"Email": {of: email, claims: map[string]any{"email": "hans@example.com", "groups": []any{"dba", 7, "sre"}},
			want: Person{User: "oidc:hans@example.com", Groups: []string{"oidc:dba", "oidc:sre"}}},
		"Verified":   {of: email, claims: map[string]any{"email": "hans@example.com", "email_verified": true}, want: Person{User: "oidc:hans@example.com"}},
		"Unverified": {of: email, claims: map[string]any{"email": "hans@example.com", "email_verified": false}, err: "is not verified"},
		"OddlySaid":  {of: email, claims: map[string]any{"email": "hans@example.com", "email_verified": "true"}, err: "is not verified"},
		"OneGroup": {of: &OIDC{GroupsClaim: "role", UsernamePrefix: "-"}, claims: map[string]any{"sub": "1", "role": "dba"},
			want: Person{User: "1", Groups: []string{"dba"}}},
		"NoName": {of: email, claims: map[string]any{"sub": "1"}, err: "has no claim email"},
		"NoText": {of: &OIDC{}, claims: map[string]any{"sub": 7}, err: "has no claim sub"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.of.person(tc.claims)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// TestAdmit covers KR-17-29: only users that are listed, with the groups that are, and never those of Kubernetes itself.
func TestAdmit(t *testing.T) {
	listed := &Config{Users: []string{"hans", "System:eve"}, Groups: []string{"dba", "system:masters"}}
	all := &Config{ImpersonateAll: true}
	got, err := listed.admit(Person{User: "hans", Groups: []string{"sre", "dba", "system:masters", "dba"}})
	require.NoError(t, err)
	assert.Equal(t, Person{User: "hans", Groups: []string{"dba"}}, got)
	got, err = all.admit(Person{User: "eve", Groups: []string{"z", "System:masters", "a", " "}})
	require.NoError(t, err)
	assert.Equal(t, Person{User: "eve", Groups: []string{"a", "z"}}, got)
	for _, c := range []*Config{listed, all} {
		for _, user := range []string{"system:admin", " SYSTEM:anonymous", "System:eve", ""} {
			_, err := c.admit(Person{User: user})
			require.ErrorContains(t, err, "of Kubernetes itself", user)
		}
	}
	_, err = listed.admit(Person{User: "eve"})
	require.ErrorContains(t, err, "not in the configuration")
	for _, user := range []string{"eve ", "\teve", "hans\x00oidc:admins"} {
		_, err := all.admit(Person{User: user})
		require.ErrorContains(t, err, "control characters", "%q", user)
	}
	got, err = all.admit(Person{User: "eve", Groups: []string{"a ", "b"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"b"}, got.Groups)
	many := make([]string, 1000)
	for n := range many {
		many[n] = strconv.Itoa(n)
	}
	got, err = all.admit(Person{User: "eve", Groups: many})
	require.NoError(t, err)
	assert.Len(t, got.Groups, maxGroups)
}

// TestLocal covers KR-17-30: a login leads back to this page, whatever was requested.
func TestLocal(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "/change/1?namespace=a": "/change/1?namespace=a", "//evil.example.org": "/", "//evil.example.org/x?y": "/x?y",
		"/\\evil.example.org":       "/%5Cevil.example.org",
		"http://evil.example.org/x": "/x", "/%2F%2Fevil.example.org": "/%2F%2Fevil.example.org", "": "/",
	} {
		u, err := url.Parse(path)
		require.NoError(t, err)
		assert.Equal(t, want, local(&http.Request{URL: u}), path)
	}
}
