package operations

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
	"github.com/kausality-io/function-kausality/test/rights"
)

// This file comes last: its tests check what the others caused, and end the
// installation.

// forgiven reads of a resource after a change of roles, which the API server and the component learn of one after the other: it repeats what is
// refused, at growing intervals. What the component may never read is never forgiven.
const forgiven = 3

// TestForbidden: no request of a component was refused during the tests: each has
// the access that it needs. An API server that has just started does not know the roles yet,
// and refuses all users. A component that restored the last object of a kind is
// informed by a watch that its access is gone, and may read once more.
func TestForbidden(t *testing.T) {
	n := 0
	granted, refused := map[string]bool{}, map[string]int{} // requests at any time, and since roles were last written
	requests(t, func(e request) { granted[e.what()] = granted[e.what()] || e.ResponseStatus.Code < 400 })
	requests(t, func(e request) {
		n++
		if !e.looks() && strings.Contains(e.RequestURI, "/clusterroles/") {
			clear(refused)
		}
		if e.ResponseStatus.Code != 403 || e.RequestReceivedTimestamp.After(the.restarted) && e.RequestReceivedTimestamp.Before(the.authorized) {
			return
		}
		what := e.what()
		if refused[what]++; !e.looks() || !granted[what] || refused[what] > forgiven {
			t.Errorf("%s cannot %s %s: %s", e.User.Username, e.Verb, e.RequestURI, e.ResponseStatus.Message)
		}
	})
	if n < 100 {
		t.Errorf("only %d requests of ours were checked", n)
	}
}

// request of one of our components.
type request struct{ rights.Request }

// what is requested, and by which component.
func (e request) what() string {
	path, _, _ := strings.Cut(e.RequestURI, "?")
	return e.User.Username + " " + e.Verb + " " + path
}

func (e request) looks() bool { return slices.Contains([]string{"get", "list", "watch"}, e.Verb) }

// requests calls f for each request of our components so far.
func requests(t *testing.T, f func(request)) {
	t.Helper()
	rights.Requests(t, the.AuditLog(), rights.Prefix, `"userAgent":"`+thief+`"`, func(e rights.Request) { f(request{e}) })
}

// remains of the installation, by kind and name. What stays on purpose is the
// CRDs and the policies, the role by which Crossplane reads the policies, and the
// Leases of elections.
func remains(ctx context.Context) (string, error) {
	var out []string
	for _, r := range []schema.GroupVersionResource{
		hooks, checks, admissionPolicies, bindings, roles, bindingsOfRoles, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}, secrets, services, pods, deployments,
		{Group: "batch", Version: "v1", Resource: "jobs"}, {Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "configmaps"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, {Group: "apps", Version: "v1", Resource: "replicasets"},
	} {
		list, err := the.admin.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=kausality"})
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			if r == roles && list.Items[i].GetName() == "kausality-crossplane" {
				continue
			}
			out = append(out, r.Resource+" "+list.Items[i].GetName())
		}
	}
	return strings.Join(out, ", "), nil
}

// TestUninstall: `helm uninstall`, with everything running and enforcing, restores
// what is masked, so that deleting a managed resource afterwards deletes its
// external resource; no finalizer or webhook that blocks a client remains (KR-12-08).
func TestUninstall(t *testing.T) {
	ns := namespace(t, "uninstalled")
	the.installSystems(t)
	require.NoError(t, merge(t, the.admin, namespaces, "", ns, annotate("kausality.io/mode", "enforce")))
	policy(t, "shop", map[string]any{"mode": "enforce", "resources": []any{map[string]any{"apiGroups": []any{"shop.example.org",
		"cloud.example.org", "argoproj.io", "infra.contrib.fluxcd.io"}, "resources": []any{"*"}}}})
	guarded(t, ns)
	held(t, ns)
	c := the.startProvider(t)
	for _, name := range []string{"orders", "carts"} {
		database(t, ns, name)
		masked(t, ns, name)
	}
	if out := the.uninstall(t); !strings.Contains(out, "; 2 kinds that the gate has no access to were not read") {
		t.Errorf("of what no policy covers, it prints %s", out)
	}
	// The gate, the webhook and the provider still run, and the provider has seen
	// that it may do everything again: nothing is masked again.
	for _, name := range []string{"orders", "carts"} {
		if p, masked := policiesOf(t, ns, name); masked || p != "*" {
			t.Errorf("the managementPolicies of %s are %s, masked %v", name, p, masked)
		}
	}
	if err := allRestored(t.Context(), ns); err != nil {
		t.Error(err)
	}
	the.stopAll(t)
	_, err := app(t, ns, "free") // at once: the webhook refuses no request while it is removed
	require.NoError(t, err)
	awaitNothingRemains(t)
	require.NoError(t, as(t, hans).Resource(cloudDatabases).Namespace(ns).Delete(t.Context(), "orders", forget))
	wait.For(t, "the database to be deleted in the cloud", wait.Patience, func(ctx context.Context) error {
		_, err := c.Get(ctx, "orders")
		if err == nil {
			err = errors.New("it is still there")
		} else if client.IsNotFound(err) {
			err = nil
		}
		return err
	})
	if _, err := c.Get(t.Context(), "carts"); err != nil {
		t.Errorf("the other database: %v", err)
	}
}

// uninstall the release with Helm. It returns what the Job that restores everything printed.
func (l *environment) uninstall(t *testing.T) (printed string) {
	t.Helper()
	uninstalled := make(chan error, 1)
	go func() {
		_, err := l.run(t.Context(), "uninstall", "kausality")
		uninstalled <- err
	}()
	printed = l.kubelet(t, "kausality-ungate")
	require.NoError(t, <-uninstalled)
	l.release = ""
	return printed
}

// stopAll components, whose Deployments are gone.
func (l *environment) stopAll(t *testing.T) {
	t.Helper()
	for _, p := range l.all() {
		p.Stop()
	}
	require.NoError(t, l.balancer.close())
}

func awaitNothingRemains(t *testing.T) {
	t.Helper()
	wait.For(t, "everything to go", wait.Patience, func(ctx context.Context) error {
		left, err := remains(ctx)
		if err == nil && left != "" {
			err = errors.New("there still are " + left)
		}
		return err
	})
}

// absent makes sure that nothing is installed. A test that runs alone, without TestUninstall before it,
// finds what environment.boot installed.
func (l *environment) absent(t *testing.T) {
	t.Helper()
	if l.release == "" {
		return
	}
	l.uninstall(t)
	l.stopAll(t)
	awaitNothingRemains(t)
}

// present installs Kausality if an earlier test uninstalled it.
func (l *environment) present(t *testing.T) {
	t.Helper()
	if l.release == "" {
		// The leader could not release its Lease when the roles were deleted, and the next one would wait for 15 s.
		require.NoError(t, l.admin.Resource(leases).Namespace(home).DeleteCollection(t.Context(), forget, metav1.ListOptions{}))
		require.NoError(t, l.install(t.Context(), l.chart()))
	}
}

// kubelet runs the one Pod of a Job, as a kubelet would: its program with its
// arguments, and a token of its ServiceAccount that is bound to it. The Pod is
// made by the real controller of Jobs, which also takes note of its end. It returns
// what the program printed.
func (l *environment) kubelet(t *testing.T, job string) (printed string) {
	t.Helper()
	var pod *unstructured.Unstructured
	wait.For(t, "the Pod of Job "+job, wait.Patience, func(ctx context.Context) error {
		list, err := l.admin.Resource(pods).Namespace(home).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
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
	out, failed := exec.CommandContext(t.Context(), l.kausality, append(args, "--kubeconfig="+l.boundKubeconfig(t, pod, account))...).CombinedOutput()
	t.Logf("kausality %s:\n%s", strings.Join(args, " "), out)
	phase := "Succeeded"
	if failed != nil {
		phase = "Failed"
		t.Errorf("the Job %s: %v", job, failed)
	}
	require.NoError(t, unstructured.SetNestedField(pod.Object, phase, "status", "phase"))
	_, err = l.admin.Resource(pods).Namespace(home).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	return string(out)
}

// boundKubeconfig has a token as a Pod gets it.
func (l *environment) boundKubeconfig(t *testing.T, pod *unstructured.Unstructured, account string) string {
	t.Helper()
	c := l.Config()
	api := clientcmdapi.NewConfig()
	api.Clusters["it"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	api.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: tokenOf(t, home, pod, account)}
	api.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	api.CurrentContext = "it"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*api, file))
	return file
}

// tokenOf a ServiceAccount, bound to a Pod.
func tokenOf(t *testing.T, ns string, pod *unstructured.Unstructured, account string) string {
	t.Helper()
	cs, err := kubernetes.NewForConfig(the.config("kubelet"))
	require.NoError(t, err)
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.GetName(), UID: pod.GetUID()},
	}}
	token, err := cs.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), account, req, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}
