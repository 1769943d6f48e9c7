package apiserver

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

const header = "apiVersion: apiserver.kausality.io/v1alpha1\nkind: KausalityConfiguration\n"

// TestReadConfiguration: a configuration is read strictly, and each mistake is one error that names the field.
func TestReadConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, text, want string
	}{
		"Least": {reason: "all but the resources has a default", text: header + "resources: [deployments.apps]"},
		"JSON": {reason: "as the API server hands it over",
			text: `{"apiVersion":"apiserver.kausality.io/v1alpha1","kind":"KausalityConfiguration","resources":["*.example.org"]}`},
		"None": {reason: "nothing is guarded by guess", text: "",
			want: `the configuration is "", ""; want apiserver.kausality.io/v1alpha1, KausalityConfiguration`},
		"OtherKind":   {reason: "of another plugin", text: "apiVersion: v1\nkind: X", want: `the configuration is "v1", "X"`},
		"Unknown":     {reason: "a field that is misspelled", text: header + "resource: [x]", want: `unknown field "resource"`},
		"Twice":       {reason: "a field that is given twice", text: header + "resources: [a]\nresources: [b]", want: "already"},
		"NoResources": {reason: "an empty list guards nothing", text: header, want: "resources: nothing is guarded"},
		"Resource":    {reason: "what the API server cannot do without", text: header + "resources: [nodes]", want: `"nodes" cannot be watched`},
		"Mode": {reason: "a mode that does not exist", text: header + "resources: [a.b]\ndefaultMode: strict",
			want: "defaultMode: strict is none of [log enforce]"},
		"RBAC": {reason: "as the flag has it", text: header + "resources: [a.b]\napproverRBAC: 'yes'",
			want: "approverRBAC: yes is none of [false true resource]"},
		"Status": {reason: "Crossplane reads two codes", text: header + "resources: [a.b]\ncomposedRefusalStatus: 500",
			want: "composedRefusalStatus: 500 is none of [422 403]"},
		"Users": {reason: "no regular expression", text: header + "resources: [a.b]\ncontrollerUsers: '('", want: "controllerUsers: error parsing regexp"},
		"Selector": {reason: "an operator that does not exist", text: header + "resources: [a.b]\nnamespaceSelector: {matchExpressions: [{key: a, operator: Is}]}",
			want: `"Is" is not a valid`},
		"Several": {reason: "all mistakes at once", text: header + "defaultMode: x\nidentifyController: z", want: "identifyController: z is none of"},
		"NoYAML":  {reason: "garbage", text: "a: [", want: "cannot read the configuration"},
		"Large":   {reason: "1 MiB is enough", text: header + strings.Repeat("#", maxConfiguration), want: "larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := ReadConfiguration(strings.NewReader(tc.text))
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			assert.EqualValues(t, "log", c.DefaultMode)
			assert.Equal(t, 10*time.Second, c.SettleGrace.Duration)
			assert.Equal(t, []string{"crossplane-system"}, c.ControllerNamespaces)
		})
	}
	_, err := ReadConfiguration(nil)
	require.ErrorContains(t, err, "--admission-control-config-file needs an entry for plugin Kausality")
}

// TestClient: Kausality speaks JSON, which its types have, and its writes have its own field manager, by which it knows them (KR-13-67), whatever
// the loopback client of the server does.
func TestClient(t *testing.T) {
	c, err := ReadConfiguration(strings.NewReader(header + "resources: [deployments.apps]"))
	require.NoError(t, err)
	loopback := &rest.Config{UserAgent: "kube-apiserver/v1.35", ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf,
		AcceptContentTypes: runtime.ContentTypeProtobuf}}
	o, err := c.options(loopback, logr.Discard())
	require.NoError(t, err)
	assert.Equal(t, rest.ContentConfig{ContentType: runtime.ContentTypeJSON}, o.Config.ContentConfig)
	assert.Equal(t, v1alpha1.ManagerWebhook, o.Config.UserAgent)
	assert.Equal(t, rest.ImpersonationConfig{UserName: manifests.WebhookUser(), Groups: []string{"system:masters"}}, o.Config.Impersonate)
}
