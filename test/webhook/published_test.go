package webhook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// warnings of API requests.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// taken are the warnings since the last call.
func (w *warnings) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.texts
	w.texts = nil
	return out
}

// never is the end of the warning of a `when` that never ends.
const never = ": it never ends: %s has no field status.observedGeneration"

// TestPublishedPolicies: the examples of policies in the design documents of kausality, word for word. Each of their parts has its
// effect, or a warning why it has none (KR-06-26 to KR-06-31). It is alone while it runs: the policies are about all Deployments.
func TestPublishedPolicies(t *testing.T) {
	f := startFleet(t, "published", options{replicas: 1, resources: workloads})
	raw, err := os.ReadFile("testdata/published/kinds.yaml")
	require.NoError(t, err)
	require.NoError(t, the.Apply(t.Context(), raw))
	validates(t, f)
	t.Run("Warnings", warnsOfPublished)
	t.Run("Deployment", func(t *testing.T) { playsPublishedDeployment(t, newCluster(t, f, "published")) })
}

// validates: the API server sends policies to the fleet.
func validates(t *testing.T, f *fleet) {
	t.Helper()
	c := the.as(t, hans)
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/webhooks/0/clientConfig/url","value":%q}]`, f.replicas[0].url+"/policies")
	_, err := c.Resource(validatingConfigurations).Patch(t.Context(), "kausality-policies", types.JSONPatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	bad := policy(t, "AllowancePolicy", "bad-expression", `{target: {kind: A}, rules: [{trigger: "spec[", allow: []}]}`)
	wait.For(t, "the API server to call the webhook for policies", wait.Patience, func(ctx context.Context) error {
		if _, err := c.Resource(allowancePolicies).Create(ctx, bad, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !kerrors.IsInvalid(err) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
}

// published policy by its file.
func published(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata/published", name+".yaml"))
	require.NoError(t, err)
	objects := decoded(t, string(raw))
	require.Len(t, objects, 1)
	return objects[0]
}

func warnsOfPublished(t *testing.T) {
	seen := &warnings{}
	cfg := the.ConfigAsMaster(hans)
	cfg.WarningHandler = seen
	c, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	files, err := filepath.Glob("testdata/published/*-00?.yaml")
	require.NoError(t, err)
	want := publishedWarnings()
	require.Len(t, files, len(want), "each file has its row")
	for file, lines := range want {
		t.Run(file, func(t *testing.T) {
			o := published(t, file)
			if o.GetNamespace() != "" {
				o.SetNamespace("default")
			}
			var got []string
			wait.For(t, "the kinds to be known", wait.Patience, func(ctx context.Context) error {
				seen.taken()
				_, err := c.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.PolicyResource(o.GetKind()))).Namespace(o.GetNamespace()).
					Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if got = seen.taken(); err != nil || len(got) != len(lines) {
					return fmt.Errorf("%w; warnings:\n%s", err, strings.Join(got, "\n"))
				}
				return nil
			})
			for i, line := range lines {
				if !strings.Contains(got[i], line) {
					t.Errorf("warning %q, want %q", got[i], line)
				}
			}
		})
	}
}

// publishedWarnings by file, in their order.
func publishedWarnings() map[string][]string {
	return map[string][]string{
		"controller-l1-compute-000":         {"spec.rules[0].expiry: it is over"},
		"crossplane-upgrade-004":            nil,
		"crossplane-upgrade-2024-01-06-003": {"spec.validUntil: it is over"},
		"database-claim-to-xr-003":          nil,
		"xdatabase-to-rds-003":              nil,
		"xdatabase-to-rds-destructive-003":  nil,
		"deployment-to-replicaset-003":      {"it is never true: Deployment has no field spec.jiraTicket", "allow[0].mutations[1]: it is never changed"},
		"deployment-policy-004": {"rules[1].allow[0].mutations[0].jsonPath: it is never changed",
			"no child of a Deployment represents an external resource"},
		"database-claim-policy-004": {fmt.Sprintf("spec.initializing.when"+never, "DatabaseClaim.example.com")},
		"xdatabase-policy-004":      {fmt.Sprintf("spec.initializing.when"+never, "XDatabase.example.com")},
		"webapp-policy-004":         {fmt.Sprintf("spec.initializing.when"+never, "WebApp.example.com")}, // its graph has names by expressions
	}
}

// playsPublishedDeployment: what the policy of Deployments permits passes, what it does not permit is held, and a change of the image is
// held as its warning announces.
func playsPublishedDeployment(t *testing.T, c *cluster) {
	write(t, allowancePolicies, published(t, "deployment-policy-004"))
	inForce(t, allowancePolicies, "deployment-policy")
	wait.For(t, "condition Effective", wait.Patience, func(ctx context.Context) error {
		o, err := the.as(t, hans).Resource(allowancePolicies).Get(ctx, "deployment-policy", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := fmt.Sprint(o.Object["status"]); !strings.Contains(s, "WithoutEffect") {
			return fmt.Errorf("status %s", s)
		}
		return nil
	})
	c.deployment("foo", 2) // section initializing
	c.rolledOut("foo", 2)
	c.latched("foo")
	require.NoError(t, c.patch("foo", `{"metadata":{"labels":{"env":"dev"},"annotations":{"jira":"INFRA-1"}}}`))
	scale := func(client kubernetes.Interface, n int) {
		t.Helper()
		_, err := client.AppsV1().Deployments(c.ns).Patch(t.Context(), "foo", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n),
			metav1.PatchOptions{})
		require.NoError(t, err)
	}
	platform, err := kubernetes.NewForConfig(quiet(the.ConfigAs(hans, "system:masters", "platform-team")))
	require.NoError(t, err)
	scale(platform, 1)
	c.rolledOut("foo", 1)
	c.latched("foo")
	_, err = platform.AppsV1().Deployments(c.ns).Patch(t.Context(), "foo", types.MergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v2.invalid/c"}]}}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	c.awaitDrift("foo", "ReplicaSet", "CREATE")
	scale(c.hans, 2) // not of the group
	c.awaitDrift("foo", "ReplicaSet", "UPDATE")
	_, running := c.replicaSets("foo")
	require.Len(t, running, 1)
	require.EqualValues(t, 1, *running[0].Spec.Replicas)
}

func quiet(c *rest.Config) *rest.Config {
	c.WarningHandler = rest.NoWarnings{}
	return c
}
