package cli

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"
)

// TestK9s covers KR-17-20: the plugins of k9s have the fields that it reads, and open commands of the plugin, with flags and arguments that these take.
func TestK9s(t *testing.T) {
	raw, err := os.ReadFile("../package/k9s/plugins.yaml")
	require.NoError(t, err)
	var file struct {
		Plugins map[string]struct {
			ShortCut    string   `json:"shortCut"`
			Description string   `json:"description"`
			Scopes      []string `json:"scopes"`
			Command     string   `json:"command"`
			Background  *bool    `json:"background"`
			Args        []string `json:"args"`
			Pipes       []string `json:"pipes"`
		} `json:"plugins"`
	}
	require.NoError(t, yaml.UnmarshalStrict(raw, &file))
	var opened, keys []string
	for name, p := range file.Plugins {
		t.Run(name, func(t *testing.T) {
			assert.Regexp(t, `^Shift-[A-Z]$`, p.ShortCut)
			assert.NotContains(t, keys, p.ShortCut)
			keys = append(keys, p.ShortCut)
			assert.NotEmpty(t, p.Description)
			assert.Equal(t, []string{"all"}, p.Scopes)
			assert.Equal(t, "kubectl", p.Command, "names of objects do not reach a shell")
			require.NotNil(t, p.Background)
			assert.False(t, *p.Background, "it takes the terminal")
			require.GreaterOrEqual(t, len(p.Args), 2)
			require.Equal(t, "kausality", p.Args[0])
			root, err := NewCommand(genericiooptions.NewTestIOStreamsDiscard(), "v1")
			require.NoError(t, err)
			cmd, rest, err := root.Find(p.Args[1:])
			require.NoError(t, err)
			require.NotEqual(t, root, cmd, p.Args)
			opened = append(opened, cmd.Name())
			require.NoError(t, cmd.ParseFlags(rest))
			for _, a := range p.Args {
				for _, v := range regexp.MustCompile(`\$[A-Z_]+`).FindAllString(a, -1) {
					assert.Contains(t, []string{"$CONTEXT", "$NAMESPACE", "$RESOURCE_NAME", "$RESOURCE_GROUP", "$NAME"}, v)
				}
			}
			if cmd.Name() == "explain" {
				assert.Equal(t, []string{"less"}, p.Pipes, "it is over before it was read")
			}
		})
	}
	slices.Sort(opened)
	assert.Equal(t, []string{"explain", "tui", "tui"}, opened)
}
