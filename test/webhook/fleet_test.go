package webhook

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// fleetLabel on a Namespace names the fleet that guards it.
const fleetLabel = "integration.example.org/fleet"

// fleet is one or more replicas of the webhook.
type fleet struct {
	t        *testing.T
	name     string
	replicas []*replica
	// proxy before several replicas, or by option; else nil.
	proxy *proxy
}

type replica struct {
	*controlplane.Process
	url, probe, metrics string
}

// options of a fleet.
type options struct {
	replicas int
	// proxied: a proxy is before a single replica, too.
	proxied bool
	// ignore: failurePolicy Ignore, as in log mode.
	ignore bool
	// resources of the built-in kinds to guard beside the fleet's own group, as
	// in apps/deployments.
	resources []string
	args      []string
	// of are the further arguments of a replica, by its number; nil for none.
	of func(i int) []string
	// program to run in place of the binary under test; "" for that. env is added to the environment of a replica, by its number; nil
	// for nothing.
	program string
	env     func(i int) []string
}

// startFleet and configure the API server to call it for its namespaces.
func startFleet(t *testing.T, name string, o options) *fleet {
	t.Helper()
	f := &fleet{t: t, name: name}
	lease := "leases-" + name
	f.namespace(lease, false)
	urls := make([]string, 0, o.replicas)
	for i := range o.replicas {
		var own []string
		if o.of != nil {
			own = o.of(i)
		}
		elect := []string{"--leader-elect=" + strconv.FormatBool(o.replicas > 1), "--leader-elect-namespace=" + lease}
		r := f.start(i, slices.Concat(elect, o.args, own), o)
		f.replicas = append(f.replicas, r)
		urls = append(urls, r.url)
	}
	for _, r := range f.replicas {
		f.awaitReady(r)
	}
	url := urls[0]
	if o.replicas > 1 || o.proxied {
		f.proxy = newProxy(t, urls)
		url = f.proxy.url
	}
	f.configure(url, o)
	return f
}

func (f *fleet) start(i int, args []string, o options) *replica {
	f.t.Helper()
	r := &replica{}
	addresses := make([]string, 0, 3)
	for range 3 {
		port, err := controlplane.FreePort()
		if err != nil {
			f.t.Fatal(err)
		}
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	r.url, r.probe, r.metrics = "https://"+addresses[0], "http://"+addresses[1]+"/readyz", "http://"+addresses[2]+"/metrics"
	args = append([]string{"webhook", "--kubeconfig=" + the.kubeconfig, "--default-mode=enforce", "--cert-dir=" + the.certs,
		"--settle-grace=1s", "--shutdown-delay=0s",
		"--bind-address=" + addresses[0], "--health-probe-bind-address=" + addresses[1], "--metrics-bind-address=" + addresses[2]}, args...)
	program := exec.Command(cmp.Or(o.program, the.kausality), args...)
	if o.env != nil {
		program.Env = append(os.Environ(), o.env(i)...)
	}
	var err error
	if r.Process, err = the.Run(context.Background(), fmt.Sprintf("%s-%d", f.name, i), program); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(r.Stop)
	return r
}

func (f *fleet) awaitReady(r *replica) {
	f.t.Helper()
	wait.For(f.t, r.Name()+" to be ready", 40*time.Second, func(context.Context) error {
		if err := r.Err(); err != nil {
			return err
		}
		_, err := get(r.probe)
		return err
	})
}

// crash a replica as kill -9 does.
func (f *fleet) crash(i int) { f.replicas[i].Kill() }

// restart a replica with the same arguments.
func (f *fleet) restart(i int) {
	f.t.Helper()
	if err := f.replicas[i].Restart(); err != nil {
		f.t.Fatal(err)
	}
	f.awaitReady(f.replicas[i])
}

// reborn is a replica that dies as by kill -9, and is started again.
func (f *fleet) reborn(i int) {
	f.t.Helper()
	f.crash(i)
	f.restart(i)
}

// configure the API server with our manifest, restricted to the fleet's
// namespaces and resources.
func (f *fleet) configure(url string, o options) {
	f.t.Helper()
	c := the.template.DeepCopy()
	c.SetName("fleet-" + f.name)
	hooks, _, _ := unstructured.NestedSlice(c.Object, "webhooks")
	for _, h := range hooks {
		m := h.(map[string]any)
		path := "/mutate"
		if strings.HasPrefix(m["name"].(string), "status") {
			path = "/status"
		} else if o.ignore {
			m["failurePolicy"] = "Ignore"
		}
		require.NoError(f.t, unstructured.SetNestedField(m, url+path, "clientConfig", "url"))
		match, _, _ := unstructured.NestedSlice(m, "namespaceSelector", "matchExpressions")
		match = append(match, map[string]any{"key": fleetLabel, "operator": "In", "values": []any{f.name}})
		require.NoError(f.t, unstructured.SetNestedSlice(m, match, "namespaceSelector", "matchExpressions"))
		m["rules"] = f.rules(m["rules"].([]any), o)
	}
	require.NoError(f.t, unstructured.SetNestedSlice(c.Object, hooks, "webhooks"))
	a, err := controlplane.NewApplier(the.Config(), "kubectl")
	require.NoError(f.t, err)
	require.NoError(f.t, a.Objects(f.t.Context(), c))
	f.t.Cleanup(func() {
		_ = the.as(f.t, hans).Resource(webhookConfigurations).Delete(context.Background(), c.GetName(), metav1.DeleteOptions{})
	})
	f.awaitConfigured()
}

// rules of the fleet's group, and of the built-in resources of its options.
func (f *fleet) rules(all []any, o options) []any {
	var out []any
	for _, e := range all {
		r := e.(map[string]any)
		group := r["apiGroups"].([]any)[0].(string)
		if group == f.name+groupSuffix {
			out = append(out, r)
			continue
		}
		var resources []any
		for _, name := range r["resources"].([]any) {
			main, _, _ := strings.Cut(name.(string), "/")
			if slices.Contains(o.resources, group+"/"+main) {
				resources = append(resources, name)
			}
		}
		if len(resources) > 0 {
			r["resources"] = resources
			out = append(out, r)
		}
	}
	return out
}

// awaitConfigured until the API server calls the fleet: a part that is created is
// traced.
func (f *fleet) awaitConfigured() {
	f.t.Helper()
	ns := f.namespace("probe-"+f.name, true)
	wait.For(f.t, "the API server to call fleet "+f.name, wait.Patience, func(ctx context.Context) error {
		o := object(f.name, "Part", ns, "", map[string]any{"count": int64(0)})
		o.SetGenerateName("probe-")
		got, err := the.as(f.t, hans).Resource(f.parts()).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
		if err == nil && got.GetAnnotations()["kausality.io/trace"] == "" {
			err = fmt.Errorf("a part was created without a trace")
		}
		return err
	})
}

// namespace that the fleet guards, or that no fleet does.
func (f *fleet) namespace(name string, guarded bool) string {
	f.t.Helper()
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if guarded {
		ns.SetLabels(map[string]string{fleetLabel: f.name, corev1.LabelMetadataName: name})
	}
	_, err := the.as(f.t, hans).Resource(namespaces).Create(f.t.Context(), ns, metav1.CreateOptions{})
	require.NoError(f.t, err)
	return name
}

func get(url string) (string, error) {
	resp, err := http.Get(url) //nolint:gosec // It is ours.
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // Nothing is left to lose.
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, resp.Status, raw)
	}
	return string(raw), err
}

// metric of a replica, summed over its labels.
func (r *replica) metric(t *testing.T, name string) float64 {
	t.Helper()
	m, err := controlplane.ReadMetrics(t.Context(), r.metrics)
	require.NoError(t, err)
	sum, found := m.Sum(name, "", "")
	if !found {
		t.Fatalf("%s has no metric %s", r.metrics, name)
	}
	return sum
}
