package slack

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestConfig covers KR-17-05: what is wrong with a configuration is named by its field.
func TestConfig(t *testing.T) {
	const base = "channel: C0123456789\nworkspace: T0123456789\n"
	for name, tc := range map[string]struct{ text, want string }{
		"Users":        {base + "users: {U0123456: {user: hans@example.com, groups: [dba]}}", ""},
		"Email":        {base + "impersonateAnyone: true\nemail: {domains: [example.com]}", ""},
		"NoUser":       {base, "users or email is required"},
		"EmailNarrow":  {base + "email: {domains: [example.com]}", "it needs impersonateAnyone: true"},
		"NoDomain":     {base + "impersonateAnyone: true\nemail: {}", "email.domains"},
		"ChannelName":  {"channel: '#ops'\nworkspace: T0123456789\nusers: {U0123456: {user: hans}}", "channel: \"#ops\" must be the id"},
		"Workspace":    {"channel: C0123456789\nusers: {U0123456: {user: hans}}", "workspace:"},
		"Member":       {base + "users: {hans: {user: hans}}", "users: \"hans\" must be the id of a member"},
		"WithoutUser":  {base + "users: {U0123456: {}}", "users.U0123456: the user is missing"},
		"SystemUser":   {base + "users: {U0123456: {user: 'system:admin'}}", "system users and groups are never impersonated"},
		"SystemGroup":  {base + "users: {U0123456: {user: hans, groups: [' System:masters']}}", "system users and groups are never impersonated"},
		"SystemPrefix": {base + "impersonateAnyone: true\nemail: {domains: [example.com], prefix: 'system:'}", "never impersonated"},
		"UnknownField": {base + "user: {}", "unknown field"},
		"Page":         {base + "users: {U0123456: {user: hans}}\npage: {url: 'javascript:alert(1)'}", "page.url"},
		"Reminders":    {base + "users: {U0123456: {user: hans}}\nreminders: {after: 72h}", ""},
		"Impatient":    {base + "users: {U0123456: {user: hans}}\nreminders: {after: 10m}", "reminders.after: \"10m0s\" must be an hour or longer"},
		"NoTime":       {base + "users: {U0123456: {user: hans}}\nreminders: {}", "reminders.after"},
		"TimeZone":     {base + "users: {U0123456: {user: hans}}\ntimeZone: Mars/Olympus", "timeZone"},
		"ClusterName":  {base + "users: {U0123456: {user: hans}}\nclusterName: 'a|b'", "clusterName"},
		"NotYAML":      {"]", "cannot read the configuration"},
		"EmptyGroup":   {base + "users: {U0123456: {user: hans, groups: ['']}}", "never impersonated"},
		"Constrained":  {base + "constrainedImpersonation: {resources: [xdatabases.example.org]}\nemail: {domains: [example.com]}", ""},
		"NoResource":   {base + "constrainedImpersonation: {}\nusers: {U0123456: {user: hans}}", "constrainedImpersonation.resources: list"},
		"AllResources": {base + "constrainedImpersonation: {resources: ['*.*']}\nusers: {U0123456: {user: hans}}", "must be a resource with its API group"},
		"Subresource":  {base + "constrainedImpersonation: {resources: [pods/exec]}\nusers: {U0123456: {user: hans}}", "must be a resource with its API group"},
		"Both": {base + "impersonateAnyone: true\nconstrainedImpersonation: {resources: [xdatabases.example.org]}\nusers: {U0123456: {user: hans}}",
			"leave one of them out"},
		"EmailAndUsers": {base + "users: {U0123456: {user: hans}}\nemail: {domains: [example.com]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(tc.text), 0o600))
			_, err := Load(file)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// TestRoles covers KR-17-10: the process may act as the users and groups that are listed, by their names, and as any user only where that is declared.
func TestRoles(t *testing.T) {
	listed := &Config{Users: map[string]Person{"U1": {User: "hans", Groups: []string{"dba"}}, "U2": {User: "anna", Groups: []string{"dba", "ops"}}}}
	all := &Config{ImpersonateAll: true, Email: &Email{Domains: []string{"example.com"}}}
	impersonation := func(c *Config) (out []rbacv1.PolicyRule) {
		for _, r := range clusterRules(c) {
			if r.Verbs[0] == "impersonate" {
				out = append(out, r)
			}
		}
		return out
	}
	assert.Equal(t, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"anna", "hans"}},
		{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"dba", "ops"}},
	}, impersonation(listed))
	assert.Equal(t, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}}}, impersonation(all))
	assert.Empty(t, listed.Warnings())
	assert.Len(t, all.Warnings(), 1)
	for _, r := range append(clusterRules(listed), clusterRules(all)...) {
		assert.NotContains(t, r.Resources, "configmaps", "clicks are in one Namespace")
		assert.NotContains(t, r.Resources, "secrets")
		assert.NotContains(t, r.Verbs, "*")
	}
	listed.Constrained = &Constrained{Resources: []string{"xdatabases.example.org", "xbuckets.example.org", "deployments.apps"}}
	assert.Equal(t, []string{
		"apps deployments [] impersonate-on:user-info:get,impersonate-on:user-info:patch",
		"example.org xdatabases,xbuckets [] impersonate-on:user-info:get,impersonate-on:user-info:patch",
		"authentication.k8s.io users [anna hans] impersonate:user-info",
		"authentication.k8s.io groups [dba ops] impersonate:user-info",
	}, constrained(listed), "of what is about changes")
	open := &Config{Email: all.Email, Constrained: listed.Constrained}
	assert.Contains(t, constrained(open), "authentication.k8s.io users [] impersonate:user-info")
	assert.Empty(t, impersonation(listed), "none in the other form")
	assert.Empty(t, listed.Warnings())
	assert.Contains(t, open.Warnings()[0], "may read and patch xdatabases.example.org, xbuckets.example.org, deployments.apps as any user")
	out := &bytes.Buffer{}
	require.NoError(t, WriteRoles(out, listed, "kausality-system"))
	assert.Contains(t, out.String(), "kind: ServiceAccount")
}

// constrained rules, but for those to read what became of a decision.
func constrained(c *Config) (out []string) {
	for _, r := range clusterRules(c) {
		about := r.APIGroups[0] == "authentication.k8s.io" && strings.HasPrefix(r.Verbs[0], "impersonate:") || strings.HasSuffix(r.Verbs[len(r.Verbs)-1], ":patch")
		if about {
			out = append(out, fmt.Sprintf("%s %s %v %s", r.APIGroups[0], strings.Join(r.Resources, ","), r.ResourceNames, strings.Join(r.Verbs, ",")))
		}
	}
	return out
}

// TestReadTokens covers KR-17-11: a token of the wrong kind is found before anything starts, and is not in the error.
func TestReadTokens(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return filepath.Join(dir, name)
	}
	bot, app, signing, empty := file("bot", "xoxb-1\n"), file("app", " xapp-2\n"), file("signing", "0123abcd\n"), file("empty", "\n")
	tokens, err := TokenFiles{Bot: bot, App: app}.Read()
	require.NoError(t, err)
	assert.Equal(t, Tokens{Bot: "xoxb-1", App: "xapp-2"}, tokens)
	tokens, err = TokenFiles{Bot: bot, Signing: signing}.Read()
	require.NoError(t, err)
	assert.Equal(t, Tokens{Bot: "xoxb-1", Signing: "0123abcd"}, tokens)
	for want, files := range map[string]TokenFiles{
		"must begin with xoxb-":            {Bot: app, App: bot},
		"--bot-token-file is required":     {App: app},
		"give --app-token-file for Socket": {Bot: bot},
		"or --signing-secret-file":         {Bot: bot, App: app, Signing: signing},
		"--signing-secret-file: ":          {Bot: bot, Signing: empty},
		"--app-token-file: ":               {Bot: bot, App: filepath.Join(dir, "none")},
	} {
		_, err = files.Read()
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "xapp-2")
	}
}
