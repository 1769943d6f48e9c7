package slack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"
)

// membersFor is how long a member of the workspace is remembered.
const membersFor = 5 * time.Minute

// directory maps members of the workspace to users of Kubernetes.
type directory struct {
	config *Config
	lookup func(ctx context.Context, user string) (*slack.User, error)
	now    func() time.Time

	mu    sync.Mutex
	known map[string]known
}

// known member until a time.
type known struct {
	Person
	until time.Time
}

// strangerError is why a member is no user; it is for the member to read.
type strangerError struct{ why string }

func (e *strangerError) Error() string { return e.why }

// of returns the user that the member who clicked is. A strangerError is an answer; other errors are those of Slack, and may pass (KR-17-05).
func (p *directory) of(ctx context.Context, team, user string) (Person, error) {
	if team != p.config.Workspace {
		return Person{}, &strangerError{"You are not of the workspace whose members decide here."}
	}
	if len(p.config.Users) > 0 { // alone: no other mapping is used for those that it does not have
		if found, ok := p.config.Users[user]; ok {
			return found, found.check()
		}
		return Person{}, &strangerError{"You are no user of the cluster: " + user + " is not in the configuration of kausality notify slack."}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.known[user]; ok && p.now().Before(k.until) {
		return k.Person, nil
	}
	u, err := p.lookup(ctx, user)
	switch {
	case isCode(err, "user_not_found"):
		return Person{}, &strangerError{"Slack does not know you as a member."}
	case err != nil:
		return Person{}, fmt.Errorf("cannot read the member from Slack: %w", err)
	}
	found, err := personOf(p.config, u)
	if err != nil {
		return Person{}, err
	}
	if p.known == nil || len(p.known) > 1000 {
		p.known = map[string]known{}
	}
	p.known[user] = known{found, p.now().Add(membersFor)}
	return found, nil
}

// personOf returns the person of a member by e-mail: a full member of the workspace, with a confirmed address of a domain that is configured.
func personOf(c *Config, u *slack.User) (Person, error) {
	address := strings.TrimSpace(u.Profile.Email)
	local, domain, ok := strings.Cut(address, "@")
	switch {
	case c.Email == nil:
		return Person{}, &strangerError{"No mapping to users of the cluster is configured."}
	case u.Deleted:
		return Person{}, &strangerError{"Your account in Slack is deactivated."}
	case isBot(u):
		return Person{}, &strangerError{"A bot does not decide."}
	case isGuest(u) || u.TeamID != c.Workspace:
		return Person{}, &strangerError{"Guests and members of other workspaces do not decide."}
	case !u.IsEmailConfirmed:
		return Person{}, &strangerError{"The e-mail address of your account is not confirmed."}
	case !ok || local == "" || strings.ContainsAny(address, " \t\r\n,;<>") || !c.Email.has(domain):
		return Person{}, &strangerError{"The e-mail address of your account is not of a domain that is configured."}
	}
	found := Person{User: c.Email.Prefix + address, Groups: c.Email.Groups}
	if err := found.check(); err != nil {
		return Person{}, &strangerError{err.Error()}
	}
	return found, nil
}

func isBot(u *slack.User) bool { return u.IsBot || u.IsAppUser || u.IsWorkflowBot || u.IsConnectorBot }

// isGuest reports whether a member is not a full member of the workspace, or not yet.
func isGuest(u *slack.User) bool {
	return u.IsRestricted || u.IsUltraRestricted || u.IsStranger || u.IsInvitedUser
}

// has reports whether addresses of a domain are configured.
func (e *Email) has(domain string) bool {
	return slices.ContainsFunc(e.Domains, func(d string) bool { return strings.EqualFold(d, domain) })
}
