package manifests

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Roles for users; nothing is bound to them (KR-12-27).
const (
	// RoleViewer reads what Kausality recorded and what it decides by.
	RoleViewer = "kausality-viewer"
	// RoleApprover is what roles with LabelApprover grant together.
	RoleApprover = "kausality-approver"
	// LabelApprover on a ClusterRole adds its rules to RoleApprover.
	LabelApprover = v1alpha1.AnnotationPrefix + "aggregate-to-approver"
)

// viewerRole returns what the plugin reads beside the objects of its user. It is not added to
// the role view of Kubernetes: Drifts have values of objects that a user of view may not read.
func viewerRole() *rbacv1.ClusterRole {
	r := clusterRole(RoleViewer, []rbacv1.PolicyRule{
		rbacRule(v1alpha1.Group, append(v1alpha1.PolicyResources(), v1alpha1.ResourceKausalities, v1alpha1.ResourceDrifts, v1alpha1.ResourceDriftReceivers,
			v1alpha1.ResourceRollouts, v1alpha1.ResourceClusterRollouts, v1alpha1.ResourceRolloutBatches), read...),
		rbacRule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, "get", "list"),                       // roles of kinds
		rbacRule("apiextensions.crossplane.io", []string{"compositeresourcedefinitions"}, "get", "list"),             // what the function holds
		named("admissionregistration.k8s.io", "mutatingwebhookconfigurations", []string{"get"}, configurationMutate), // what is guarded
		rbacRule("", []string{"namespaces"}, "get"),                                                                  // modes
		named("coordination.k8s.io", "leases", []string{"get"}, heartbeat),                                           // what the webhook demands of clients
		named("networking.k8s.io", "networkpolicies", []string{"get"}, componentWebhook),                             // and who reaches it
		rbacRule("apiextensions.crossplane.io", []string{"compositionrevisions"}, "get"),                             // whether the function runs
		rbacRule("pkg.crossplane.io", []string{"functionrevisions"}, "list"),                                         // by which package
		rbacRule("pkg.crossplane.io", []string{"functions"}, "get", "list"),
	})
	r.Labels[LabelApprover] = "true"
	return r
}

// approverRole has the rules of viewerRole and of the roles that are labelled for it. It
// names no kinds: which are guarded follows policies, and the verb approve of all resources
// would include that of signers of certificates.
func approverRole() *rbacv1.ClusterRole {
	r := clusterRole(RoleApprover, nil)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{LabelApprover: "true"}}}}
	return r
}
