package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// shared is the control plane that tests share. The first that needs it boots it.
var shared struct {
	once sync.Once
	c    *controlplane.ControlPlane
	err  error
}

func TestMain(m *testing.M) {
	controlplane.HelpLeasing()

	code := m.Run()

	if shared.c != nil {
		shared.c.Stop()
	}

	os.Exit(code)
}

func sharedControlPlane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()

	shared.once.Do(func() {
		shared.c, shared.err = controlplane.Start(context.Background(), controlplane.Options{
			Out: os.Stderr, Crossplane: true, AuditLog: true,
		})
	})

	if shared.err != nil {
		t.Fatal(shared.err)
	}

	return shared.c
}

const xrd = `
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata:
  name: xdatabases.test.example.org
spec:
  scope: Namespaced
  group: test.example.org
  names: {kind: XDatabase, plural: xdatabases}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
---
apiVersion: test.example.org/v1
kind: XDatabase
metadata: {name: main}
spec: {size: 10}
`

// The XR is in the same stream as the XRD, so that Apply must wait for a kind that only Crossplane
// brings about.
func TestCrossplaneEstablishesXRD(t *testing.T) {
	c := sharedControlPlane(t)

	if err := c.Apply(t.Context(), []byte(xrd)); err != nil {
		t.Fatal(err)
	}

	client := dynamic.NewForConfigOrDie(c.Config())
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

	crd, err := client.Resource(crds).Get(t.Context(), "xdatabases.test.example.org", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	if err := controlplane.ConditionTrue(crd, "Established"); err != nil {
		t.Error(err)
	}

	// Crossplane works on the XR: it reports that there is no Composition.
	xrs := schema.GroupVersionResource{Group: "test.example.org", Version: "v1", Resource: "xdatabases"}

	wait.For(t, "Crossplane's answer to the XR", 20*time.Second, func(ctx context.Context) error {
		xr, err := client.Resource(xrs).Namespace("default").Get(ctx, "main", metav1.GetOptions{})
		if err != nil {
			return err
		}

		if _, found, _ := unstructured.NestedSlice(xr.Object, "status", "conditions"); !found {
			return errors.New("it has no conditions")
		}

		return nil
	})
}

func TestImpersonationReachesTheAPIServer(t *testing.T) {
	c := sharedControlPlane(t)
	hans := kubernetes.NewForConfigOrDie(c.ConfigAs("hans@example.com", "dba"))

	assertUser(t, hans, "hans@example.com", "dba", "system:authenticated")

	_, err := hans.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("before Grant: want forbidden, got %v", err)
	}

	if err := c.Grant(t.Context(), "hans@example.com", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"},
	}); err != nil {
		t.Fatal(err)
	}

	if _, err := hans.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("after Grant: %v", err)
	}
}

func TestKubeconfigs(t *testing.T) {
	c := sharedControlPlane(t)

	cases := map[string]struct {
		write func() (string, error)
		user  string
		group string
	}{
		"Admin": {
			write: func() (string, error) { return c.Kubeconfig("admin", "") },
			user:  "kubernetes-admin", group: "system:masters",
		},
		"User": {
			write: func() (string, error) { return c.Kubeconfig("hans", "hans@example.com", "dba") },
			user:  "hans@example.com", group: "dba",
		},
		"ServiceAccount": {
			write: func() (string, error) { return c.ServiceAccountKubeconfig(t.Context(), "kausality-system", "gate") },
			user:  "system:serviceaccount:kausality-system:gate", group: "system:serviceaccounts:kausality-system",
		},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path, err := tc.write()
			if err != nil {
				t.Fatal(err)
			}

			cfg, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				t.Fatal(err)
			}

			assertUser(t, kubernetes.NewForConfigOrDie(cfg), tc.user, tc.group)
		})
	}
}

// assertUser checks whom the API server takes the client for.
func assertUser(t *testing.T, cs kubernetes.Interface, user string, groups ...string) {
	t.Helper()

	review, err := cs.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	got := review.Status.UserInfo
	if got.Username != user {
		t.Errorf("want user %q, got %q", user, got.Username)
	}

	has := map[string]bool{}
	for _, g := range got.Groups {
		has[g] = true
	}

	for _, g := range groups {
		if !has[g] {
			t.Errorf("want group %q, got %q", g, got.Groups)
		}
	}
}

func TestControllersAreTheirOwnUsers(t *testing.T) {
	c := sharedControlPlane(t)
	cs := kubernetes.NewForConfigOrDie(c.Config())

	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web.invalid/web"}}},
			},
		},
	}

	if _, err := cs.AppsV1().Deployments("default").Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	wait.For(t, "a ReplicaSet and its Pod", 20*time.Second, func(ctx context.Context) error {
		rs, err := cs.AppsV1().ReplicaSets("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}

		pods, err := cs.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}

		if len(rs.Items) != 1 || len(pods.Items) != 1 {
			return fmt.Errorf("%d ReplicaSets, %d Pods", len(rs.Items), len(pods.Items))
		}

		return nil
	})

	wait.For(t, "the deployment controller in the audit log", 20*time.Second, func(context.Context) error {
		return auditHas(c.AuditLog(), `"resource":"replicasets"`, `"system:serviceaccount:kube-system:deployment-controller"`)
	})
}
