package slack

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestConfig covers KR-17-05: what is wrong with a configuration is named by its field.
func TestConfig(t *testing.T) {
	const base = "channel: C0123456789\nworkspace: T0123456789\n"
	for name, tc := range map[string]struct{ text, want string }{
		"Users":         {base + "users: {U0123456: {user: hans@example.com, groups: [dba]}}", ""},
		"Email":         {base + "impersonateAnyone: true\nemail: {domains: [example.com]}", ""},
		"NoUser":        {base, "users or email is required"},
		"EmailNarrow":   {base + "email: {domains: [example.com]}", "it needs impersonateAnyone: true"},
		"NoDomain":      {base + "impersonateAnyone: true\nemail: {}", "email.domains"},
		"ChannelName":   {"channel: '#ops'\nworkspace: T0123456789\nusers: {U0123456: {user: hans}}", "channel: \"#ops\" must be the id"},
		"Workspace":     {"channel: C0123456789\nusers: {U0123456: {user: hans}}", "workspace:"},
		"Member":        {base + "users: {hans: {user: hans}}", "users: \"hans\" must be the id of a member"},
		"WithoutUser":   {base + "users: {U0123456: {}}", "users.U0123456: the user is missing"},
		"SystemUser":    {base + "users: {U0123456: {user: 'system:admin'}}", "system users and groups are never impersonated"},
		"SystemGroup":   {base + "users: {U0123456: {user: hans, groups: [' System:masters']}}", "system users and groups are never impersonated"},
		"SystemPrefix":  {base + "impersonateAnyone: true\nemail: {domains: [example.com], prefix: 'system:'}", "never impersonated"},
		"UnknownField":  {base + "user: {}", "unknown field"},
		"Page":          {base + "users: {U0123456: {user: hans}}\npage: {url: 'javascript:alert(1)'}", "page.url"},
		"TimeZone":      {base + "users: {U0123456: {user: hans}}\ntimeZone: Mars/Olympus", "timeZone"},
		"ClusterName":   {base + "users: {U0123456: {user: hans}}\nclusterName: 'a|b'", "clusterName"},
		"NotYAML":       {"]", "cannot read the configuration"},
		"EmptyGroup":    {base + "users: {U0123456: {user: hans, groups: ['']}}", "never impersonated"},
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
	out := &bytes.Buffer{}
	require.NoError(t, WriteRoles(out, listed, "kausality-system"))
	assert.Contains(t, out.String(), "kind: ServiceAccount")
}

// TestReadTokens covers KR-17-11: a token of the wrong kind is found before anything starts, and is not in the error.
func TestReadTokens(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return filepath.Join(dir, name)
	}
	bot, app := file("bot", "xoxb-1\n"), file("app", " xapp-2\n")
	tokens, err := ReadTokens(bot, app)
	require.NoError(t, err)
	assert.Equal(t, Tokens{Bot: "xoxb-1", App: "xapp-2"}, tokens)
	_, err = ReadTokens(app, bot)
	require.ErrorContains(t, err, "must begin with xoxb-")
	assert.NotContains(t, err.Error(), "xapp-2")
	_, err = ReadTokens("", app)
	assert.ErrorContains(t, err, "--bot-token-file is required")
}
