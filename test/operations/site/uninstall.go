package site

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// remains of the installation, by kind and name. What stays on purpose is the
// CRDs and the policies, the role by which Crossplane reads the policies, and the
// Leases of elections.
func (l *Site) remains(ctx context.Context) (string, error) {
	var out []string
	for _, r := range []schema.GroupVersionResource{
		Hooks, Checks, AdmissionPolicies, Bindings, Roles, BindingsOfRoles, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}, Secrets, services, Pods, Deployments,
		{Group: "batch", Version: "v1", Resource: "jobs"}, {Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "configmaps"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, {Group: "apps", Version: "v1", Resource: "replicasets"},
	} {
		list, err := l.Admin.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kausality"})
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			if r == Roles && list.Items[i].GetName() == "kausality-crossplane" {
				continue
			}
			out = append(out, r.Resource+" "+list.Items[i].GetName())
		}
	}
	return strings.Join(out, ", "), nil
}

// Uninstall the release with Helm. It returns what the Job that restores everything printed.
func (l *Site) Uninstall(t *testing.T) (printed string) {
	t.Helper()
	l.absent = append(l.absent, period{from: time.Now()})
	uninstalled := make(chan error, 1)
	go func() {
		_, err := l.RunHelm(t.Context(), "uninstall", "kausality")
		uninstalled <- err
	}()
	printed = l.kubelet(t, "kausality-ungate")
	require.NoError(t, <-uninstalled)
	l.Release = ""
	return printed
}

// StopAll components, whose Deployments are gone.
func (l *Site) StopAll(t *testing.T) {
	t.Helper()
	for _, p := range l.all() {
		p.Stop()
	}
	l.Controller, l.Gate, l.Webhooks = nil, nil, nil
	if l.Balancer != nil {
		require.NoError(t, l.Balancer.close())
	}
	l.Balancer = nil
}

// AwaitNothingRemains of the installation.
func (l *Site) AwaitNothingRemains(t *testing.T) {
	t.Helper()
	wait.For(t, "everything to go", wait.Patience, func(ctx context.Context) error {
		left, err := l.remains(ctx)
		if err == nil && left != "" {
			err = errors.New("there still are " + left)
		}
		return err
	})
}

// Absent makes sure that nothing is installed.
func (l *Site) Absent(t *testing.T) {
	t.Helper()
	if l.Release != "" {
		require.NoError(t, l.Revive(t.Context()))
		l.Uninstall(t)
	}
	l.StopAll(t)
	l.AwaitNothingRemains(t)
	// The leader could not release its Lease when the roles were deleted, and the next one would wait for 15 s.
	require.NoError(t, l.Admin.Resource(Leases).Namespace(Home).DeleteCollection(t.Context(), Forget, metav1.ListOptions{}))
}

// kubelet runs the one Pod of a Job, as a kubelet would: its program with its
// arguments, and a token of its ServiceAccount that is bound to it. The Pod is
// made by the real controller of Jobs, which also takes note of its end. It returns
// what the program printed.
func (l *Site) kubelet(t *testing.T, job string) (printed string) {
	t.Helper()
	var pod *unstructured.Unstructured
	wait.For(t, "the Pod of Job "+job, wait.Patience, func(ctx context.Context) error {
		list, err := l.Admin.Resource(Pods).Namespace(Home).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		if err == nil {
			pod = &list.Items[0]
		}
		return err
	})
	account, _, err := unstructured.NestedString(pod.Object, "spec", "serviceAccountName")
	require.NoError(t, err)
	containers, _, err := unstructured.NestedSlice(pod.Object, "spec", "containers")
	require.NoError(t, err)
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	require.NoError(t, err)
	out, failed := exec.CommandContext(t.Context(), l.Kausality, append(args, "--kubeconfig="+l.boundKubeconfig(t, pod, account))...).CombinedOutput()
	t.Logf("kausality %s:\n%s", strings.Join(args, " "), out)
	phase := "Succeeded"
	if failed != nil {
		phase = "Failed"
		t.Errorf("the Job %s: %v", job, failed)
	}
	require.NoError(t, unstructured.SetNestedField(pod.Object, phase, "status", "phase"))
	_, err = l.Admin.Resource(Pods).Namespace(Home).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	return string(out)
}

// boundKubeconfig has a token as a Pod gets it.
func (l *Site) boundKubeconfig(t *testing.T, pod *unstructured.Unstructured, account string) string {
	t.Helper()
	c := l.Config()
	api := clientcmdapi.NewConfig()
	api.Clusters["it"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	api.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: l.tokenOf(t, Home, pod, account)}
	api.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	api.CurrentContext = "it"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*api, file))
	return file
}

// tokenOf a ServiceAccount, bound to a Pod.
func (l *Site) tokenOf(t *testing.T, ns string, pod *unstructured.Unstructured, account string) string {
	t.Helper()
	cs, err := kubernetes.NewForConfig(l.ConfigFor("kubelet"))
	require.NoError(t, err)
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.GetName(), UID: pod.GetUID()},
	}}
	token, err := cs.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), account, req, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}
