package slack

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/channel"
)

// Config of a channel, as a YAML file has it.
type Config struct {
	// Channel is the id of the channel that is posted to, as in C0123456789.
	Channel string `json:"channel"`
	// Workspace is the id of the workspace whose members decide, as in T0123456789.
	Workspace string `json:"workspace"`
	// ClusterName is shown, and part of what clicks are about: one app is for one cluster.
	ClusterName string `json:"clusterName,omitempty"`
	// TimeZone of "until Monday", an IANA name; UTC where it is empty.
	TimeZone string `json:"timeZone,omitempty"`
	// Page is where changes are shown in full; nil for nowhere, so that commands are shown.
	Page *Page `json:"page,omitempty"`
	// Reminders of what is held for long; nil for none.
	Reminders *Reminders `json:"reminders,omitempty"`
	// Users maps ids of members to users of Kubernetes. Where it is given, it alone decides (KR-17-05).
	Users map[string]Person `json:"users,omitempty"`
	// Email maps full members by their e-mail addresses; nil for not. It is not used where Users is given.
	Email *Email `json:"email,omitempty"`
	// ImpersonateAll permits users that the configuration does not list; Email needs it, or Constrained.
	ImpersonateAll bool `json:"impersonateAnyone,omitempty"`
	// Constrained is what this process may do as users where the API server has constrained impersonation; nil for roles in the form of all releases.
	Constrained *Constrained `json:"constrainedImpersonation,omitempty"`
}

// Constrained impersonation (KEP-5284, alpha in Kubernetes 1.35).
type Constrained struct {
	// Resources are those of parents, as in xdatabases.example.org: as users, this process reads and patches their objects.
	Resources []string `json:"resources"`
}

// Page with the details of changes.
type Page struct {
	// URL of a change; {namespace} and {id} in it are replaced.
	URL string `json:"url"`
}

// Reminders of changes that are open, neither rejected nor snoozed (KR-17-27).
type Reminders struct {
	// After is for how long a change is held before the first reminder of its cause, at least an hour.
	After metav1.Duration `json:"after"`
}

// Person is a user of Kubernetes.
type Person struct {
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
}

// Email is how the address of a member becomes a user name.
type Email struct {
	// Prefix of the user name, as the API server's --oidc-username-prefix.
	Prefix string `json:"prefix,omitempty"`
	// Domains that addresses must have.
	Domains []string `json:"domains"`
	// Groups of all of them; nil for none.
	Groups []string `json:"groups,omitempty"`
}

// Load loads a configuration. Fields that are not known are errors.
func Load(file string) (*Config, error) {
	c := &Config{}
	if err := channel.LoadConfig(file, c); err != nil {
		return nil, err
	}
	return c, c.Check()
}

var (
	channelID   = regexp.MustCompile(`^[CG][A-Z0-9]{2,20}$`)
	workspaceID = regexp.MustCompile(`^[TE][A-Z0-9]{2,20}$`)
	memberID    = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)
	clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{0,63}$`)
	resourceID  = regexp.MustCompile(`^[a-z][a-z0-9]*(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// Check checks a configuration: each error names its field (KR-17-05).
func (c *Config) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !channelID.MatchString(c.Channel) {
		bad("channel: %q must be the id of a channel, as in C0123456789; Slack shows it below the channel's details", c.Channel)
	}
	if !workspaceID.MatchString(c.Workspace) {
		bad("workspace: %q must be the id of a workspace, as in T0123456789", c.Workspace)
	}
	if !clusterName.MatchString(c.ClusterName) {
		bad("clusterName: %q must have at most 63 letters, digits and . _ -", c.ClusterName)
	}
	if _, err := time.LoadLocation(c.TimeZone); err != nil {
		bad("timeZone: %w", err)
	}
	if c.Page != nil {
		if u, err := url.Parse(c.Page.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			bad("page.url: %q must be an http or https URL", c.Page.URL)
		}
	}
	if c.Reminders != nil && c.Reminders.After.Duration < time.Hour {
		bad("reminders.after: %q must be an hour or longer, as in 72h", c.Reminders.After.Duration)
	}
	errs = append(errs, c.checkConstrained()...)
	errs = append(errs, c.checkPersons()...)
	return errors.Join(errs...)
}

// checkConstrained reports what is wrong with constrained impersonation.
func (c *Config) checkConstrained() (errs []error) {
	if c.Constrained == nil {
		return nil
	}
	if c.ImpersonateAll {
		errs = append(errs, errors.New("constrainedImpersonation: it permits less than impersonateAnyone: true; leave one of them out"))
	}
	if len(c.Constrained.Resources) == 0 {
		errs = append(errs, errors.New("constrainedImpersonation.resources: list the resources of parents, as in xdatabases.example.org"))
	}
	for _, r := range c.Constrained.Resources {
		if !resourceID.MatchString(r) {
			errs = append(errs, fmt.Errorf("constrainedImpersonation.resources: %q must be a resource with its API group, as in xdatabases.example.org", r))
		}
	}
	return errs
}

// checkPersons reports what is wrong with the mappings to users.
func (c *Config) checkPersons() (errs []error) {
	for _, id := range slices.Sorted(maps.Keys(c.Users)) {
		p := c.Users[id]
		if !memberID.MatchString(id) {
			errs = append(errs, fmt.Errorf("users: %q must be the id of a member, as in U0123456789", id))
		}
		if err := p.check(); err != nil {
			errs = append(errs, fmt.Errorf("users.%s: %w", id, err))
		}
	}
	e := c.Email
	switch {
	case len(c.Users) == 0 && e == nil:
		return append(errs, errors.New("users or email is required: without them no click is by a user of Kubernetes"))
	case len(c.Users) > 0 || e == nil:
		return errs
	case !c.ImpersonateAll && c.Constrained == nil:
		errs = append(errs, errors.New("email: it needs impersonateAnyone: true, which permits this process to act as any user of the cluster; list users instead"))
	case len(e.Domains) == 0:
		errs = append(errs, errors.New("email.domains: list the domains of the addresses"))
	}
	if err := (Person{User: e.Prefix + "x", Groups: e.Groups}).check(); err != nil {
		errs = append(errs, fmt.Errorf("email: %w", err))
	}
	return errs
}

// check checks that a person may be impersonated: system users and groups never are.
func (p Person) check() error {
	if p.User == "" {
		return errors.New("the user is missing")
	}
	for _, name := range append([]string{p.User}, p.Groups...) {
		if isSystem(name) {
			return fmt.Errorf("%q: system users and groups are never impersonated", name)
		}
	}
	return nil
}

// describe describes a person with the groups, for answers.
func (p Person) describe() string {
	if len(p.Groups) == 0 {
		return p.User
	}
	return p.User + " with the groups " + strings.Join(p.Groups, ", ")
}

// isSystem reports whether a user or group is one of Kubernetes itself, or has no name.
func isSystem(name string) bool {
	return strings.TrimSpace(name) == "" || strings.HasPrefix(strings.ToLower(strings.TrimSpace(name)), "system:")
}

// location returns the location of times that are shown and chosen.
func (c *Config) location() *time.Location {
	if at, err := time.LoadLocation(c.TimeZone); err == nil {
		return at
	}
	return time.UTC
}

// Warnings returns the warnings about a configuration that is valid.
func (c *Config) Warnings() (out []string) {
	if c.ImpersonateAll {
		out = append(out, "impersonateAnyone: this process may act as any user of the cluster: who controls it, or a mailbox of the workspace, decides as that user")
	}
	if c.Constrained != nil && len(c.Users) == 0 {
		out = append(out, "email: this process may read and patch "+strings.Join(c.Constrained.Resources, ", ")+
			" as any user of the cluster: who controls it, or a mailbox of the workspace, decides as that user")
	}
	if c.Email != nil && len(c.Users) > 0 {
		out = append(out, "email is not used, since users is given")
	}
	return out
}

// Tokens of the app in Slack.
type Tokens struct {
	// Bot token, xoxb-….
	Bot string
	// App-level token, xapp-…, with the scope connections:write, for Socket Mode; empty where Slack sends requests by HTTP.
	App string
	// Signing secret of the app, which those requests are signed by; empty for Socket Mode.
	Signing string
}

// TokenFiles are the files of tokens, one in each.
type TokenFiles struct{ Bot, App, Signing string }

// Read returns the tokens, without white space around them.
func (f TokenFiles) Read() (t Tokens, err error) {
	if (f.App == "") == (f.Signing == "") {
		return t, errors.New("give --app-token-file for Socket Mode, or --signing-secret-file for requests by HTTP")
	}
	for _, f := range []struct {
		flag, file, prefix string
		to                 *string
	}{{"--bot-token-file", f.Bot, "xoxb-", &t.Bot}, {"--app-token-file", f.App, "xapp-", &t.App}, {"--signing-secret-file", f.Signing, "", &t.Signing}} {
		switch {
		case f.file == "" && f.to == &t.Bot:
			return t, fmt.Errorf("%s is required", f.flag)
		case f.file == "":
			continue
		}
		raw, err := os.ReadFile(f.file)
		if err != nil {
			return t, fmt.Errorf("%s: %w", f.flag, err)
		}
		*f.to = strings.TrimSpace(string(raw))
		switch {
		case *f.to == "":
			return t, fmt.Errorf("%s: %s is empty", f.flag, f.file)
		case !strings.HasPrefix(*f.to, f.prefix):
			return t, fmt.Errorf("%s: the token in %s must begin with %s", f.flag, f.file, f.prefix)
		}
	}
	return t, nil
}
