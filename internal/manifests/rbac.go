package manifests

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Names of the components' ServiceAccounts and of the roles that go with them.
const (
	componentWebhook = "kausality-webhook"
	componentGate    = "kausality-gate"
	// componentController runs outside of `kausality manifests`: the chart has it.
	componentController = "kausality-controller"
	// RoleCrossplane lets the composition function read what it requires, through Crossplane.
	RoleCrossplane = "kausality-crossplane"
	// LabelCrossplane with the value "true" adds the rules of a ClusterRole to Crossplane's own.
	LabelCrossplane = "rbac.crossplane.io/aggregate-to-crossplane"
	roleLeases      = "kausality-leases"
	heartbeat       = Heartbeat
)

// Heartbeat is the Lease that the webhook writes while it runs, and the role for it.
const Heartbeat = "kausality-webhook-heartbeat"

const serviceAccountPrefix = "system:serviceaccount:"

var (
	read = []string{"get", "list", "watch"}
	// observe is what a cache needs: clients list where the API server does not stream with a watch.
	observe = []string{"list", "watch"}
	// Of webhook and gate on what is guarded.
	webhookVerbs = []string{"get", "list", "watch", "patch"}
	gateVerbs    = []string{"get", "list", "watch", "patch", "delete"}
)

func namespace() *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: meta(Namespace)}
}

func account(name string) *corev1.ServiceAccount {
	sa := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta(name)}
	sa.Namespace = Namespace
	return sa
}

// webhookRole: the webhook reads parents, claims approvals and writes latches
// as annotations on them, keeps Drifts, and creates SubjectAccessReviews of
// approvers and controllers.
func webhookRole(in *input) *rbacv1.ClusterRole {
	return clusterRole(componentWebhook, append(watched(in.groups, webhookVerbs...), webhookRules()...))
}

// gateRole: the gate opens and closes managed resources, and repeats deletions
// that were refused to others.
func gateRole(in *input) *rbacv1.ClusterRole {
	return clusterRole(componentGate, append(watched(in.groups, gateVerbs...), gateRules()...))
}

// crossplaneRole lets the composition function read what it requires, through
// Crossplane, beyond what Crossplane's own role has: CRDs and webhook configurations.
func crossplaneRole() *rbacv1.ClusterRole {
	r := clusterRole(RoleCrossplane, []rbacv1.PolicyRule{
		rbacRule(v1alpha1.Group, append(v1alpha1.PolicyResources(), v1alpha1.ResourceKausalities), observe...),
		rbacRule("", []string{"namespaces"}, read...),
	})
	r.Labels[LabelCrossplane] = "true"
	return r
}

// webhookRules returns the access of the webhook beside what it guards (KR-13-43).
func webhookRules() []rbacv1.PolicyRule {
	return append(common(),
		rbacRule("admissionregistration.k8s.io", []string{"mutatingwebhookconfigurations"}, observe...), // which resources are guarded
		rbacRule(v1alpha1.Group, append(v1alpha1.PolicyResources(), v1alpha1.ResourceKausalities), observe...),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceUpgradeAllowances, v1alpha1.ResourceApprovalPolicies,
			v1alpha1.ResourceClusterApprovalPolicies}, "get"), // to count uses
		rbacRule(v1alpha1.Group, policyStatuses(), "patch"),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceApprovalPolicies + "/status",
			v1alpha1.ResourceClusterApprovalPolicies + "/status"}, "update"), // claims
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceDrifts}, "delete"),                                                            // old ones
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceRollouts, v1alpha1.ResourceClusterRollouts}, "get", "list", "watch", "patch"), // takes votes
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceRollouts + "/status", v1alpha1.ResourceClusterRollouts + "/status",
			v1alpha1.ResourceRolloutBatches + "/status"}, "update"),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceRolloutBatches}, "list", "create", "delete"),
		rbacRule("", []string{"pods"}, "get"), // their images identify the build of a controller
		rbacRule("apiextensions.crossplane.io", []string{"compositions", "compositionrevisions"}, "get"), // and who made them
		rbacRule("pkg.crossplane.io", []string{"functions", "functionrevisions"}, "list"),
		rbacRule("kro.run", []string{"resourcegraphdefinitions"}, "get"), // and of graphs
		rbacRule("internal.kro.run", []string{"graphrevisions"}, "get", "list"),
		rbacRule("authorization.k8s.io", []string{"subjectaccessreviews"}, "create"),
	)
}

// gateRules returns the access of the gate beside what it guards (KR-13-43).
func gateRules() []rbacv1.PolicyRule {
	return append(common(),
		rbacRule("admissionregistration.k8s.io", []string{"mutatingwebhookconfigurations"}, read...), // which resources are guarded
		// A change of policies may allow what was refused.
		rbacRule(v1alpha1.Group, append(v1alpha1.PolicyResources(), v1alpha1.ResourceKausalities), observe...),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceUpgradeAllowances}, "get"), // when its window begins
		// `kausality ungate --for-removal` marks it, as the gate's own user.
		named("admissionregistration.k8s.io", "mutatingwebhookconfigurations", []string{"create", "patch", "delete"}, configurationMutate),
	)
}

// common access of both components.
func common() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rbacRule("", []string{"namespaces"}, observe...),
		rbacRule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, read...),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceDrifts}, "get", "list", "watch", "create", "patch"),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceDrifts + "/status", v1alpha1.ResourceDriftReceivers + "/status"}, "patch"),
		rbacRule(v1alpha1.Group, []string{v1alpha1.ResourceDriftReceivers}, "get", "list", "create", "delete"), // whether reports arrive
		rbacRule("", []string{"events"}, "create"),                                                             // of the election of a leader
		rbacRule("events.k8s.io", []string{"events"}, "create", "patch"),
	}
}

// watched resources. Of a custom group all of them, since it has the parents of
// the named ones; of Kubernetes' own groups only the named ones.
func watched(groups []group, verbs ...string) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, 0, len(groups))
	for _, g := range groups {
		resources := g.names("")
		if g.custom() {
			resources = []string{all}
		}
		out = append(out, rbacRule(g.name, resources, verbs...))
	}
	return out
}

func rbacRule(apiGroup string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{apiGroup}, Resources: resources, Verbs: verbs}
}

// named returns a rule for objects of certain names.
func named(apiGroup, resource string, verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{apiGroup}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
}

func clusterRole(name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: meta(name), Rules: rules}
}

// clusterRoleBinding of the ClusterRole of that name to the component's ServiceAccount,
// and to users as which components run elsewhere.
func clusterRoleBinding(name string, users []string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: meta(name),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: append([]rbacv1.Subject{accountSubject(Namespace, name)}, subjects(users)...),
	}
}

// leasesRole is for leader election, in Kausality's own namespace alone.
func leasesRole() *rbacv1.Role {
	return homeRole(roleLeases, rbacRule("coordination.k8s.io", []string{"leases"}, "get", "create", "update"))
}

// leasesBinding of leasesRole to webhook and gate.
func leasesBinding(users []string) *rbacv1.RoleBinding {
	components := []rbacv1.Subject{accountSubject(Namespace, componentWebhook), accountSubject(Namespace, componentGate)}
	return homeBinding(roleLeases, append(components, subjects(users)...)...)
}

// heartbeatRole is for the Lease by which the webhook knows that its watches are up to date.
func heartbeatRole() *rbacv1.Role {
	return homeRole(heartbeat, named("coordination.k8s.io", "leases", []string{"list", "watch", "patch"}, heartbeat))
}

func heartbeatBinding(users []string) *rbacv1.RoleBinding {
	return homeBinding(heartbeat, append([]rbacv1.Subject{accountSubject(Namespace, componentWebhook)}, subjects(users)...)...)
}

// homeRole in our own Namespace.
func homeRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	r := &rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: meta(name), Rules: rules}
	r.Namespace = Namespace
	return r
}

// homeBinding of the role of that name in our own Namespace.
func homeBinding(role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta(role), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}
	b.Namespace = Namespace
	return b
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// subjects of user names: those of ServiceAccounts become ServiceAccount subjects.
func subjects(users []string) []rbacv1.Subject {
	out := make([]rbacv1.Subject, 0, len(users))
	for _, u := range users {
		if ns, name, ok := serviceAccount(u); ok {
			out = append(out, accountSubject(ns, name))
			continue
		}
		out = append(out, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u})
	}
	return out
}

func accountSubject(ns, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: name}
}

// serviceAccount returns the ServiceAccount of a user name; ok is false for another user.
func serviceAccount(user string) (ns, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, serviceAccountPrefix)
	if !ok {
		return "", "", false
	}
	ns, name, ok = strings.Cut(rest, ":")
	return ns, name, ok && ns != "" && name != "" && !strings.Contains(name, ":")
}
