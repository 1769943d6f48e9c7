package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// The components, by the names of their processes.
const (
	webhook    = "webhook"
	gate       = "gate"
	function   = "function"
	controller = "controller"
	provider   = "provider"
	crossplane = "crossplane"
	etcd       = "etcd"
	apiserver  = "apiserver"
)

// processes of the components.
var processes = map[string]string{
	webhook: "kausality-webhook", gate: "kausality-gate", controller: "kausality-controller", function: "function-kausality",
	provider: "provider-cloud", crossplane: parts.Crossplane, etcd: parts.Etcd, apiserver: parts.KubeAPIServer,
}

// ours are the components of Kausality.
var ours = []string{webhook, gate, controller, function}

const home = "kausality-system"

// environment is what all runs share.
type environment struct {
	*story.Env
	admin dynamic.Interface
	users map[string]dynamic.Interface
	// lines by component.
	lines map[string]*line
	// certs of the lines; ca has signed them.
	certs string
	// skews is the directory with the clocks; empty where the binary has none.
	skews string
	// probes of our processes, by component.
	probes map[string]string
	// metrics is the address of those of the webhook.
	metrics string

	// address of the webhook.
	address string
	// unconverted: a Database could not be converted.
	unconverted atomic.Bool

	mu sync.Mutex
	// down are the components that the kubelet leaves down.
	down map[string]bool
}

var the *environment

var all = flag.Bool("faults.all", false, "run the whole campaign")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, boot))
}

func boot(ctx context.Context) (stop func(), err error) {
	the = &environment{lines: map[string]*line{}, users: map[string]dynamic.Interface{}, probes: map[string]string{}, down: map[string]bool{}}
	o := story.Options{Dir: os.Getenv("KAUSALITY_FAULTS_DIR"), Out: os.Stderr, Function: true, WithoutObjects: true,
		Kausality: os.Getenv("KAUSALITY_BINARY")}
	if *all {
		if o.Kausality, err = the.wrongClocks(ctx); err != nil {
			return nil, err
		}
	}
	the.Env, err = story.Start(ctx, o)
	if err == nil {
		err = the.install(ctx)
	}
	watched, end := context.WithCancel(ctx)
	if err == nil {
		go the.kubelet(watched)
	}
	return func() {
		end()
		the.mu.Lock()
		the.Stop()
		the.mu.Unlock()
		if the.skews != "" {
			_ = os.RemoveAll(the.skews)
		}
	}, err
}

// The resources of the tests.
var (
	policies    = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "kausalities"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// install the chart, run what its Deployments have, and lead all components through lines.
func (e *environment) install(ctx context.Context) (err error) {
	if e.admin, err = newClient(e.Config()); err != nil {
		return err
	}
	for _, user := range []string{story.Hans, story.Alice} {
		if e.users[user], err = newClient(e.ConfigAs(user)); err != nil {
			return err
		}
	}
	e.certs = filepath.Join(e.Dir(), "lines")
	if err := e.CA().ServingCert(e.certs); err != nil {
		return err
	}
	for _, c := range []string{webhook, gate, controller, provider, crossplane} {
		if e.lines[c], err = newLine(e.Config().Host, e.certs, e.Config().CAData); err != nil {
			return err
		}
	}
	for c, file := range map[string]string{provider: "crossplane-system-provider-cloud", crossplane: "crossplane-system-crossplane"} {
		if err := e.lines[c].through(filepath.Join(e.Dir(), "kubeconfigs", file), e.CA().Bundle()); err != nil {
			return err
		}
		if err := e.Process(processes[c]).Restart(); err != nil {
			return err
		}
	}
	if e.address, err = freeAddress(); err != nil {
		return err
	}
	if err := e.chart(ctx, e.address); err != nil {
		return err
	}
	for _, c := range []string{controller, webhook, gate} {
		if err := e.start(ctx, c, e.address); err != nil {
			return err
		}
	}
	for c := range e.probes {
		if err := controlplane.Eventually(ctx, c+" to be ready", time.Minute, func(ctx context.Context) error {
			return e.ready(ctx, c)
		}); err != nil {
			return err
		}
	}
	return e.guard(ctx)
}

func newClient(c *rest.Config) (dynamic.Interface, error) {
	c.QPS, c.WarningHandler = -1, rest.NoWarnings{}
	return dynamic.NewForConfig(c)
}

func freeAddress() (string, error) {
	port, err := controlplane.FreePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

func (e *environment) ready(ctx context.Context, component string) error {
	return controlplane.Answers(ctx, "http://"+e.probes[component]+"/readyz")
}

// chart of the repository, as `helm template … | kubectl apply`.
func (e *environment) chart(ctx context.Context, address string) error {
	tools, err := parts.Ensure(ctx, os.Stderr, "", parts.Helm)
	if err != nil {
		return err
	}
	root, err := parts.Root()
	if err != nil {
		return err
	}
	if err := e.Apply(ctx, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+home+"}\n")); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, tools[parts.Helm], "template", "kausality", filepath.Join(root, "package", "helm", "kausality"),
		"--namespace", home,
		"--set", "ungate.enabled=false,webhook.shutdownDelay=0s,webhook.settleGrace=1s,webhook.url=https://"+address)
	cmd.Env, cmd.Stderr = append(os.Environ(), "HOME="+e.Dir()), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot render the chart: %w", err)
	}
	return e.Apply(ctx, out)
}

var itself = rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"},
	Verbs: []string{"create"}}

// start a component with the arguments of its Deployment, over its line.
func (e *environment) start(ctx context.Context, component, address string) error {
	o, err := e.admin.Resource(deployments).Namespace(home).Get(ctx, "kausality-"+component, metav1.GetOptions{})
	if err != nil {
		return err
	}
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		return err
	}
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, home, "kausality-"+component, itself)
	if err != nil {
		return err
	}
	if err := e.lines[component].through(kubeconfig, e.CA().Bundle()); err != nil {
		return err
	}
	if e.probes[component], err = freeAddress(); err != nil {
		return err
	}
	args = append(args, "--kubeconfig="+kubeconfig, "--health-probe-bind-address="+e.probes[component], "--metrics-bind-address=0")
	if component == webhook {
		if e.metrics, err = freeAddress(); err != nil {
			return err
		}
		args = append(args, "--bind-address="+address, "--metrics-bind-address="+e.metrics)
	}
	_, err = e.Run(ctx, processes[component], exec.Command(e.Bins[parts.Kausality], args...))
	return err
}

// guard the kinds of the story by two policies: one whose outage lets changes pass and one
// whose outage refuses them. The mode is the Namespace's.
func (e *environment) guard(ctx context.Context) error {
	for failure, mode := range map[string]string{"Ignore": "log", "Fail": "enforce"} {
		if err := e.Apply(ctx, fmt.Appendf(nil, `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: outage-%s}
spec:
  mode: %s
  namespaces: {selector: {matchLabels: {outage: %s}}}
  resources:
  - {apiGroups: [example.org], resources: [xdatabases]}
  - {apiGroups: [cloud.example.org], resources: [databases]}
`, map[string]string{"Ignore": "passes", "Fail": "refuses"}[failure], mode, failure)); err != nil {
			return err
		}
	}
	return controlplane.Eventually(ctx, "the policies to be in force", time.Minute, func(ctx context.Context) error {
		list, err := e.admin.Resource(policies).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if err := controlplane.ConditionTrue(&o, "WebhookConfigured"); err != nil {
				return err
			}
		}
		return nil
	})
}

// kubelet starts processes again that ended on their own: one that loses its leadership
// ends itself, and etcd does when it cannot write.
func (e *environment) kubelet(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, c := range slices.Sorted(maps.Keys(processes)) {
			e.revive(ctx, c)
		}
	}
}

func (e *environment) revive(ctx context.Context, component string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p := e.Process(processes[component])
	select {
	case <-p.Done():
	default:
		return
	}
	if e.down[component] {
		return
	}
	if err := p.Restart(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
	}
}

// keep a component down, or up.
func (e *environment) keep(component string, down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down[component] = down
}
