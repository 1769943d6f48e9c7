package hosted

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/channel"
)

// Config of the page in the cluster, as a YAML file has it.
type Config struct {
	// URL of the page, as in https://kausality.example.org, without a path.
	URL string `json:"url"`
	// ClusterName is shown.
	ClusterName string `json:"clusterName,omitempty"`
	// OIDC is the login of the page itself; nil for none.
	OIDC *OIDC `json:"oidc,omitempty"`
	// BearerTokens are taken from the header Authorization, which a proxy adds; nil for none.
	BearerTokens *BearerTokens `json:"bearerTokens,omitempty"`
	// Users and Groups as whom the process may act, by their names with the prefixes of OIDC.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// ImpersonateAll permits users and groups that are not listed.
	ImpersonateAll bool `json:"impersonateAnyone,omitempty"`
}

// OIDC is an issuer, and how its claims become a user, as the flags --oidc-… of the API server have it.
type OIDC struct {
	// Issuer is its URL.
	Issuer string `json:"issuer"`
	// ClientID of the page, whose redirect URI is the URL of the page with the path /callback.
	ClientID string `json:"clientID"`
	// Scopes that are requested; openid, profile, email, groups and offline_access where empty.
	Scopes []string `json:"scopes,omitempty"`
	// UsernameClaim is the claim with the name of the user, sub where empty; its value is preceded by UsernamePrefix. Where that is empty, it
	// is the issuer and # but for the claim email; - is none.
	UsernameClaim  string `json:"usernameClaim,omitempty"`
	UsernamePrefix string `json:"usernamePrefix,omitempty"`
	// GroupsClaim is the claim with the groups, a text or a list, groups where empty; each is preceded by GroupsPrefix.
	GroupsClaim  string `json:"groupsClaim,omitempty"`
	GroupsPrefix string `json:"groupsPrefix,omitempty"`
}

// BearerTokens are those of users.
type BearerTokens struct {
	// Audiences of which a token must have one; those of the API server where empty.
	Audiences []string `json:"audiences,omitempty"`
}

// defaultScopes are requested where none are configured.
var defaultScopes = []string{"openid", "profile", "email", "groups", "offline_access"}

// Load loads a configuration. Fields that are not known are errors.
func Load(file string) (*Config, error) {
	c := &Config{}
	if err := channel.LoadConfig(file, c); err != nil {
		return nil, err
	}
	return c, c.Check()
}

// Check checks a configuration: each error names its field.
func (c *Config) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := c.checkURL(); err != nil {
		errs = append(errs, err)
	}
	switch {
	case (c.OIDC == nil) == (c.BearerTokens == nil):
		bad("oidc or bearerTokens is required, and one of them alone: by what users are known")
	case c.OIDC != nil:
		errs = append(errs, c.checkOIDC()...)
	case len(c.Users)+len(c.Groups) > 0 || c.ImpersonateAll:
		bad("users, groups and impersonateAnyone are of oidc: with bearerTokens, users act by their own tokens")
	}
	return errors.Join(errs...)
}

// checkURL reports what is wrong with the URL of the page.
func (c *Config) checkURL() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil, u.Host == "", u.User != nil, strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
		return fmt.Errorf("url: %q must be the URL of the page without a path, as in https://kausality.example.org", c.URL)
	case u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80":
		return fmt.Errorf("url: %q has the default port, which browsers leave out", c.URL)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return fmt.Errorf("url: %q must begin with https://: cookies and tokens pass there", c.URL)
	}
	return nil
}

// isLoopback reports whether a host is this computer.
func isLoopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// checkOIDC reports what is wrong with the login and the users.
func (c *Config) checkOIDC() (errs []error) {
	o := c.OIDC
	if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		errs = append(errs, fmt.Errorf("oidc.issuer: %q must be an https URL", o.Issuer))
	}
	if o.ClientID == "" {
		errs = append(errs, errors.New("oidc.clientID: it is missing"))
	}
	if len(o.Scopes) > 0 && !slices.Contains(o.Scopes, "openid") {
		errs = append(errs, errors.New("oidc.scopes: openid must be one of them"))
	}
	if len(c.Users) == 0 && !c.ImpersonateAll {
		errs = append(errs, errors.New("users: list those who may log in; impersonateAnyone: true permits all, and this process to act as any user of the cluster"))
	}
	for _, name := range slices.Concat(c.Users, c.Groups) {
		if isSystem(name) {
			errs = append(errs, fmt.Errorf("%q: system users and groups are never impersonated", name))
		}
	}
	return errs
}

// isSystem reports whether a user or group is one of Kubernetes itself, or has no name.
func isSystem(name string) bool {
	return strings.TrimSpace(name) == "" || strings.HasPrefix(strings.ToLower(strings.TrimSpace(name)), "system:")
}

// Warnings returns the warnings about a configuration that is valid.
func (c *Config) Warnings() (out []string) {
	if c.ImpersonateAll {
		out = append(out, "impersonateAnyone: this process may act as any user of the cluster: who controls it, or an account at the issuer, decides as that user")
	}
	return out
}

// origin of the page.
func (c *Config) origin() string { return strings.TrimRight(c.URL, "/") }

// secure reports whether cookies are for https alone.
func (c *Config) secure() bool { return strings.HasPrefix(c.URL, "https://") }
