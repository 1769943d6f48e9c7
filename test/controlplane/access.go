package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tokenLife is how long the token of a ServiceAccountKubeconfig is valid.
const tokenLife = 24 * time.Hour

// everything is what cluster-admin may do.
var everything = []rbacv1.PolicyRule{
	{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
}

// ServiceAccountKubeconfig makes sure that there are the namespace, the ServiceAccount, and a
// ClusterRole with the rules (none: everything) bound to it, and writes a kubeconfig with a token of
// it, valid for 24 hours. It returns the path, DIR/kubeconfigs/NAMESPACE-NAME, once the API server
// grants the first rule. Calling it again replaces the rules and the token.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string, rules ...rbacv1.PolicyRule) (path string, err error) {
	if err := c.applier.Objects(ctx,
		&corev1.Namespace{TypeMeta: typeMeta("v1", "Namespace"), ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}},
	); err != nil {
		return "", err
	}

	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	if err := c.grant(ctx, namespace+":"+name, subject, rules); err != nil {
		return "", err
	}

	cs, err := kubernetes.NewForConfig(c.quiet())
	if err != nil {
		return "", fmt.Errorf("cannot make a client: %w", err)
	}

	seconds := int64(tokenLife.Seconds())
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}

	token, err := cs.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, req, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot get a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}

	return c.writeKubeconfig(namespace+"-"+name, tokenAuth(token.Status.Token))
}

// Grant lets the user do what the rules allow (none: everything), in all namespaces, and returns once
// the API server does. Calling it again for the user replaces the rules.
func (c *ControlPlane) Grant(ctx context.Context, user string, rules ...rbacv1.PolicyRule) error {
	return c.grant(ctx, "user:"+user, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}, rules)
}

// Bind a user to a ClusterRole that exists.
func (c *ControlPlane) Bind(ctx context.Context, user, role string) error {
	return c.applier.Objects(ctx, &rbacv1.ClusterRoleBinding{
		TypeMeta:   typeMeta(rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: "controlplane:" + role + ":" + user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	})
}

// grant binds a ClusterRole of that name with the rules to the subject.
func (c *ControlPlane) grant(ctx context.Context, name string, subject rbacv1.Subject, rules []rbacv1.PolicyRule) error {
	if len(rules) == 0 {
		rules = everything
	}

	name = "controlplane:" + name

	if err := c.applier.Objects(ctx,
		&rbacv1.ClusterRole{
			TypeMeta: typeMeta(rbacv1.SchemeGroupVersion.String(), "ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules,
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: typeMeta(rbacv1.SchemeGroupVersion.String(), "ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects: []rbacv1.Subject{subject},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		},
	); err != nil {
		return err
	}

	user := subject.Name
	if subject.Kind == rbacv1.ServiceAccountKind {
		user = "system:serviceaccount:" + subject.Namespace + ":" + subject.Name
	}

	return c.awaitAccess(ctx, user, rules)
}

// awaitAccess waits until the API server's authorizer, which watches RBAC, knows of the first rule
// for resources.
func (c *ControlPlane) awaitAccess(ctx context.Context, user string, rules []rbacv1.PolicyRule) error {
	i := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool {
		return len(r.Resources) > 0 && len(r.APIGroups) > 0 && len(r.Verbs) > 0 && len(r.ResourceNames) == 0
	})
	if i < 0 {
		return nil
	}

	cs, err := kubernetes.NewForConfig(rest.AddUserAgent(c.quiet(), "controlplane"))
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}

	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: rules[i].APIGroups[0], Resource: rules[i].Resources[0], Verb: rules[i].Verbs[0],
		},
	}}

	return Eventually(ctx, "access of "+user, 30*time.Second, func(ctx context.Context) error {
		got, err := cs.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !got.Status.Allowed {
			err = errors.New("the API server denies it")
		}

		return err
	})
}

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}
