package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kausality-io/function-kausality/channel/page/hosted"
	"github.com/kausality-io/function-kausality/test/controlplane"
)

// pageValues are the least that the page needs.
var pageValues = []string{"page.enabled=true", "page.url=https://kausality.example.org", "page.keysSecretName=page-keys",
	"page.config.oidc.issuer=https://login.example.org", "page.config.oidc.clientID=page", "page.config.users={hans@example.com}"}

// TestPageRoles covers KR-17-31: the chart grants the page what its configuration needs, and no more, and the configuration is one that it takes.
func TestPageRoles(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		want   []string
	}{
		"Users": {config: `{"oidc":{"issuer":"https://login.example.org","clientID":"page","usernameClaim":"email"},
			"users":["hans","anna","hans"],"groups":["oidc:a"]}`,
			want: []string{"ClusterRole: impersonate /groups oidc:a", "ClusterRole: impersonate /users anna", "ClusterRole: impersonate /users hans"}},
		"NoGroups": {config: `{"oidc":{"issuer":"https://login.example.org","clientID":"page"},"users":["hans"]}`,
			want: []string{"ClusterRole: impersonate /users hans"}},
		"All": {config: `{"oidc":{"issuer":"https://login.example.org","clientID":"page"},"groups":["a"],"impersonateAnyone":true}`,
			want: []string{"ClusterRole: impersonate /groups *", "ClusterRole: impersonate /users *"}},
		"ServerTokens": {config: `{"bearerTokens":{}}`, want: []string{"ClusterRole: create authentication.k8s.io/tokenreviews *"}},
		"Tokens":       {config: `{"bearerTokens":{"audiences":["kausality"]}}`, want: []string{"ClusterRole: create authentication.k8s.io/tokenreviews *"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, "template", "kausality", dir, "--namespace", "kausality-system",
				"--set", "clusterName=production,page.enabled=true,page.keysSecretName=k", "--set", "page.url=https://kausality.example.org",
				"--set-json", "page.config="+tc.config)
			require.NoError(t, err)
			rendered, err := controlplane.Decode([]byte(out))
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(configOf(t, rendered, hosted.Component)), 0o600))
			c, err := hosted.Load(file)
			require.NoError(t, err)
			assert.Equal(t, "production", c.ClusterName)
			role := rbacv1.ClusterRole{}
			into(t, find(t, rendered, "ClusterRole", hosted.Component), &role)
			assert.Equal(t, tc.want, listedRules("ClusterRole", role.Rules))
			for _, o := range rendered {
				assert.False(t, o.GetKind() == "Role" && o.GetName() == hosted.Component)
			}
		})
	}
}

// TestPageDocuments covers KR-17-28: the chart takes the values that docs/page.md has.
func TestPageDocuments(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(dir, "..", "..", "..", "docs", "page.md"))
	require.NoError(t, err)
	n := 0
	for _, block := range strings.Split(string(raw), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if block = "\n" + block; strings.HasPrefix(block, "\n   ") { // in a list
			block = strings.ReplaceAll(block, "\n   ", "\n")
		}
		if !strings.Contains(block, "\npage:\n") {
			continue
		}
		n++
		values := filepath.Join(t.TempDir(), "values.yaml")
		require.NoError(t, os.WriteFile(values, []byte(block), 0o600))
		out, err := run(t, "template", "kausality", dir, "--namespace", "kausality-system", "--values", values)
		require.NoError(t, err, block)
		rendered, err := controlplane.Decode([]byte(out))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(values, []byte(configOf(t, rendered, hosted.Component)), 0o600))
		_, err = hosted.Load(values)
		require.NoError(t, err, block)
	}
	assert.Equal(t, 2, n, "with a login, and behind a proxy")
}
