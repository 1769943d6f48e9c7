package operations

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// right to a verb on a resource, of a component. names are those that its rule lists, nil for any.
type right struct{ component, group, resource, verb string }

func (r right) String() string {
	return fmt.Sprintf("%s: %s %s.%s", r.component, r.verb, r.resource, r.group)
}

// guardedVerbs are what policies grant on the resources that they name, as TestRoles checks.
var guardedVerbs = map[string][]string{
	"webhook": {"get", "list", "watch", "patch"}, "gate": {"get", "list", "watch", "patch", "delete"}, "controller": {"list"},
}

// guardedResource stands for all that policies name.
const guardedResource = "guarded"

// rare rights, by their String, with the situation that they are for, which these tests do not
// play, or play at times. The webhook of test/webhook has the same rules, and no others.
var rare = map[string]string{
	"gate: patch events.events.k8s.io":                              "client-go counts an event that occurs again about the same version of an object",
	"gate: patch drifts.kausality.io":                               occursAgain,
	"webhook: patch drifts.kausality.io":                            occursAgain,
	"webhook: create events.events.k8s.io":                          receiverAway,
	"webhook: patch events.events.k8s.io":                           receiverAway,
	"gate: get kausalities.kausality.io":                            wakeByPolicy,
	"gate: get allowancepolicies.kausality.io":                      wakeByPolicy,
	"gate: get upgradeallowances.kausality.io":                      wakeByPolicy,
	"gate: get approvalpolicies.kausality.io":                       wakeByPolicy,
	"gate: get clusterapprovalpolicies.kausality.io":                wakeByPolicy,
	"gate: get approvalrules.kausality.io":                          wakeByPolicy,
	"webhook: get rolloutbatches.kausality.io":                      "a process died while it wrote the plan of a Rollout",
	"webhook: get approvalrules.kausality.io":                       votesCount,
	"webhook: patch approvalrules/status.kausality.io":              votesCount,
	"webhook: get drifts.kausality.io":                              "another replica creates the Drift of the same difference at the same time",
	"webhook: delete drifts.kausality.io":                           "Drifts that were resolved a week ago",
	"webhook: list functionrevisions.pkg.crossplane.io":             "there are Functions: Crossplane is no part of these tests, but of test/e2e",
	"webhook: get compositionrevisions.apiextensions.crossplane.io": "as above",
	"webhook: get compositions.apiextensions.crossplane.io":         "as above",
	"webhook: get functions.pkg.crossplane.io":                      "as above",
	"webhook: get pods.":                                            controllersInPods,
	"webhook: get upgradeallowances.kausality.io":                   controllersInPods,
	"webhook: patch upgradeallowances/status.kausality.io":          controllersInPods,
	"webhook: get allowancepolicies.kausality.io":                   policiesDecide,
	"webhook: patch allowancepolicies/status.kausality.io":          policiesDecide,
	"webhook: get approvalpolicies.kausality.io":                    policiesDecide,
	"webhook: patch approvalpolicies/status.kausality.io":           policiesDecide,
	"webhook: update approvalpolicies/status.kausality.io":          policiesDecide,
	"webhook: get clusterapprovalpolicies.kausality.io":             policiesDecide,
	"webhook: patch clusterapprovalpolicies/status.kausality.io":    policiesDecide,
	"webhook: update clusterapprovalpolicies/status.kausality.io":   policiesDecide,
}

const (
	occursAgain       = "a difference occurs again after it was resolved, with another cause: TestDelivery of test/webhook"
	receiverAway      = "a receiver of DriftReports is away: TestDelivery of test/webhook"
	controllersInPods = "controllers that run in Pods: TestUpgradesDistinguishPods of test/webhook"
	wakeByPolicy      = "a policy changes while something is refused: TestWakeByPolicy of test/gate"
	votesCount        = "ApprovalRules require votes: TestPlugin of test/kubectl"
	policiesDecide    = "policies allow drift: TestPoliciesDecide of test/webhook"
)

// TestRolesNameWhatIsUsed: each verb on each resource that the chart's roles grant was used by the
// ServiceAccount that has it, in some test (KR-13-43).
func TestRolesNameWhatIsUsed(t *testing.T) {
	if flag.Lookup("test.run").Value.String() != "" {
		t.Skip("what some tests use is not all")
	}
	granted := chartRights(t)
	used := usedRights(t)
	unnecessary := maps.Clone(rare)
	for _, r := range slices.SortedFunc(maps.Keys(granted), func(a, b right) int { return strings.Compare(a.String(), b.String()) }) {
		_, isRare := rare[r.String()]
		delete(unnecessary, r.String())
		if !used[r] && !isRare {
			t.Errorf("%s is granted, and no test uses it: remove it from the role", r)
		}
	}
	for text := range unnecessary {
		t.Errorf("%s is rare, and not granted", text)
	}
	if len(granted) < 50 {
		t.Errorf("the chart grants only %d rights", len(granted))
	}
}

// chartRights are what the roles of the chart grant to our components.
func chartRights(t *testing.T) map[right]bool {
	t.Helper()
	objects, err := the.render(t.Context())
	require.NoError(t, err)
	out := map[right]bool{}
	for component, verbs := range guardedVerbs {
		for _, verb := range verbs {
			out[right{component, "", guardedResource, verb}] = true
		}
	}
	for _, o := range objects {
		var role rbacv1.ClusterRole
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" || o.GetName() == "kausality-crossplane" ||
			o.GetName() == "kausality-viewer" || o.GetName() == "kausality-approver" {
			continue // what functions require is read by Crossplane, which test/e2e runs; and users have the roles for users
		}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
		for _, component := range bearers(t, objects, o) {
			for _, rule := range role.Rules {
				add(out, component, rule)
			}
		}
	}
	return out
}

// add the rights of a rule.
func add(to map[right]bool, component string, rule rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				to[right{component, group, resource, verb}] = true
			}
		}
	}
}

// bearers of a role: the components that it is bound to, or whose aggregated role has it.
func bearers(t *testing.T, objects []*unstructured.Unstructured, role *unstructured.Unstructured) (out []string) {
	t.Helper()
	if component, base := strings.CutSuffix(role.GetName(), "-base"); base {
		return []string{strings.TrimPrefix(component, "kausality-")}
	}
	for _, o := range objects {
		var binding rbacv1.RoleBinding
		if o.GetKind() != role.GetKind()+"Binding" {
			continue
		}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding))
		for _, s := range binding.Subjects {
			if binding.RoleRef.Name == role.GetName() && s.Namespace == home {
				out = append(out, strings.TrimPrefix(s.Name, "kausality-"))
			}
		}
	}
	require.NotEmpty(t, out, "%s is bound to no component", role.GetName())
	return out
}

// usedRights are those that our components' requests needed. Lists are what clients fall back to where
// the API server does not stream them with a watch; an apply that creates needs the verb create; and
// escalate is needed for roles with rights that the writer does not have.
func usedRights(t *testing.T) map[right]bool {
	t.Helper()
	out := map[right]bool{}
	requests(t, func(e request) {
		r := right{strings.TrimPrefix(e.User.Username, "system:serviceaccount:"+home+":kausality-"), e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.Verb}
		if e.ObjectRef.Subresource != "" {
			r.resource += "/" + e.ObjectRef.Subresource
		}
		if e.ResponseStatus.Code == 403 {
			return
		}
		verbs := []string{e.Verb}
		switch {
		case e.Verb == "watch":
			verbs = append(verbs, "list")
		case e.Verb == "patch" && e.ResponseStatus.Code == 201:
			verbs = append(verbs, "create")
		}
		if e.Verb == "patch" && r.resource == "clusterroles" {
			verbs = append(verbs, "escalate")
		}
		for _, v := range verbs {
			r.verb = v
			out[r] = true
			if strings.HasSuffix(r.group, "example.org") {
				out[right{r.component, "", guardedResource, v}] = true
			}
		}
	})
	return out
}
