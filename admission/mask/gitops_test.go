package mask

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// inGit is a managed resource as its author keeps it; stored is the same behind a closed
// gate, with what Kausality, its provider and the API server wrote.
const (
	inGit = `{apiVersion: cloud.example.org/v1, kind: Database, metadata: {name: orders, annotations: {team: shop}},
spec: {managementPolicies: ["*"], forProvider: {size: 20, engine: postgres}}}`
	stored = `{apiVersion: cloud.example.org/v1, kind: Database,
metadata: {name: orders, uid: u1, generation: 3, annotations: {team: shop, kausality.io/management-policies: '["*"]',
  kausality.io/gate: '{"state":"closed"}', kausality.io/trace: "[]"}},
spec: {managementPolicies: [Observe], providerConfigRef: {name: default}, forProvider: {size: 20, engine: postgres}}, status: {}}`
)

// TestGitOps: a client-side differ that follows the rules of docs/gitops.md finds no
// difference in a masked managed resource, finds one without them, and finds a changed
// field with them.
func TestGitOps(t *testing.T) {
	require.Equal(t, []string{"Observe"}, Policies([]string{"*"}, []v1alpha1.Verb{v1alpha1.VerbObserve}, RuntimeCurrent), "as stored has it")
	page, err := os.ReadFile("../../docs/gitops.md")
	require.NoError(t, err)
	var checked []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		tool := struct {
			Kind string `json:"kind"`
			Spec struct {
				IgnoreDifferences []struct {
					JSONPointers []string `json:"jsonPointers"`
				} `json:"ignoreDifferences"`
				DriftDetection struct {
					Ignore []struct {
						Paths []string `json:"paths"`
					} `json:"ignore"`
				} `json:"driftDetection"`
			} `json:"spec"`
		}{}
		require.NoError(t, yaml.UnmarshalStrict(withoutUnread(t, block[1]), &tool))
		var ignored []string
		for _, rule := range tool.Spec.IgnoreDifferences {
			ignored = append(ignored, rule.JSONPointers...)
		}
		for _, rule := range tool.Spec.DriftDetection.Ignore {
			ignored = append(ignored, rule.Paths...)
		}
		require.NotEmpty(t, ignored, tool.Kind)
		require.Empty(t, differences(t, inGit, stored, ignored), tool.Kind)
		require.NotEmpty(t, differences(t, strings.Replace(inGit, "size: 20", "size: 30", 1), stored, ignored), tool.Kind)
		checked = append(checked, tool.Kind)
	}
	slices.Sort(checked)
	require.Equal(t, []string{"Application", "HelmRelease"}, checked)
	require.JSONEq(t, `{"spec":{"managementPolicies":["*"]}}`, differences(t, inGit, stored, nil))
}

// withoutUnread leaves the kind, and the fields of the spec that have rules.
func withoutUnread(t *testing.T, block []byte) []byte {
	t.Helper()
	o := map[string]any{}
	require.NoError(t, yaml.Unmarshal(block, &o))
	delete(o, "apiVersion")
	if spec, ok := o["spec"].(map[string]any); ok {
		if detection, ok := spec["driftDetection"].(map[string]any); ok {
			require.Equal(t, "enabled", detection["mode"])
			delete(detection, "mode")
		}
		if rules, ok := spec["ignoreDifferences"].([]any); ok {
			for _, r := range rules {
				rule, ok := r.(map[string]any)
				require.True(t, ok)
				require.Equal(t, "*", rule["group"])
				require.Equal(t, "*", rule["kind"])
				delete(rule, "group")
				delete(rule, "kind")
			}
		}
	}
	out, err := yaml.Marshal(o)
	require.NoError(t, err)
	return out
}

// differences are the merge patch that applying a manifest to a stored object is, after the
// ignored fields are removed from both; "" where it changes nothing. What a manifest does not
// have stays.
func differences(t *testing.T, manifest, object string, ignored []string) string {
	t.Helper()
	want, have := normalized(t, manifest, ignored), normalized(t, object, ignored)
	applied, err := jsonpatch.MergePatch(have, want)
	require.NoError(t, err)
	patch, err := jsonpatch.CreateMergePatch(have, applied)
	require.NoError(t, err)
	if string(patch) == "{}" {
		return ""
	}
	return string(patch)
}

// normalized object without the fields of JSON pointers.
func normalized(t *testing.T, text string, ignored []string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	for _, pointer := range ignored {
		remove, err := json.Marshal([]map[string]string{{"op": "remove", "path": pointer}})
		require.NoError(t, err)
		patch, err := jsonpatch.DecodePatch(remove)
		require.NoError(t, err)
		raw, err = patch.Apply(raw)
		require.NoError(t, err)
	}
	return raw
}
