package operations

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// environment is what all tests share. They run one after the other: each leaves the
// installation as it found it.
type environment struct {
	*controlplane.ControlPlane
	root, kausality, helm string
	// admins is the kubeconfig of the installing user, release the chart that is installed, empty if none is.
	admins, release string
	// services: the API server reaches the webhook through its Service.
	services         bool
	admin            dynamic.Interface
	balancer         *balancer
	controller, gate *process
	webhooks         []*process
	// line between our components and the API server. Cut, it ends their watches, as
	// the API server does with each after five to ten minutes.
	line *balancer
	// restarted is when the API server was, and authorized when it knew the roles again.
	restarted, authorized time.Time
}

var the *environment

const home = "kausality-system"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, bootShared))
}

// bootShared boots what all tests share.
func bootShared(ctx context.Context) (stop func(), err error) {
	the = &environment{}
	err = the.boot(ctx)
	if the.ControlPlane != nil {
		stop = the.Stop
	}
	return stop, err
}

func (l *environment) boot(ctx context.Context) (err error) {
	if l.root, err = parts.Root(); err != nil {
		return err
	}
	built, err := parts.Ensure(ctx, os.Stderr, "", parts.Kausality)
	if err != nil {
		return err
	}
	tools, err := parts.Ensure(ctx, os.Stderr, "", parts.Helm)
	if err != nil {
		return err
	}
	l.kausality, l.helm = built["kausality"], tools[parts.Helm]
	addresses, err := serviceRange()
	if l.services = err == nil; !l.services {
		fmt.Fprintf(os.Stderr, "the webhook is called by its address and not through its Service: %v\n", err)
	}
	l.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		Out: os.Stderr, Dir: os.Getenv("KAUSALITY_INSTALL_DIR"), AuditLog: true, AuditGroups: []string{learnedGroup}, ServiceRange: addresses,
	})
	if err != nil {
		return err
	}
	if l.admin, err = dynamic.NewForConfig(l.config("admin")); err != nil {
		return err
	}
	if l.line, err = newBalancer("127.0.0.1:0"); err != nil {
		return err
	}
	l.line.add(strings.TrimPrefix(l.Config().Host, "https://"), func() bool { return true })
	if l.admins, err = l.Kubeconfig("admin", ""); err != nil {
		return err
	}
	if err := l.Define(ctx, kinds...); err != nil {
		return err
	}
	if err := l.restrict(ctx, home); err != nil {
		return err
	}
	old, err := l.earlier()
	if err != nil {
		return err
	}
	return l.install(ctx, old)
}

// config of a client with a user agent.
func (l *environment) config(agent string) *rest.Config {
	c := l.Config()
	c.UserAgent, c.QPS, c.WarningHandler = agent, -1, rest.NoWarnings{}
	return c
}

// process is a component as the chart runs it.
type process struct {
	*controlplane.Process
	address, probe, metrics string
}

// itself is a rule that every user has: the harness grants it and no other.
var itself = rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}, Verbs: []string{"create"}}

// start a component with the arguments of its Deployment. What differs in a
// process is added: where the API server is, and addresses of its own.
func (l *environment) start(ctx context.Context, component string, i int) (*process, error) {
	args, err := l.args(ctx, component)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := l.kubeconfig(ctx, component)
	if err != nil {
		return nil, err
	}
	p := &process{}
	for _, a := range []*string{&p.address, &p.probe, &p.metrics} {
		port, err := controlplane.FreePort()
		if err != nil {
			return nil, err
		}
		*a = fmt.Sprintf("127.0.0.1:%d", port)
	}
	args = append(args, "--kubeconfig="+kubeconfig, "--health-probe-bind-address="+p.probe, "--metrics-bind-address="+p.metrics)
	if component == "webhook" {
		args = append(args, "--bind-address="+p.address)
	}
	p.Process, err = l.Run(context.WithoutCancel(ctx), fmt.Sprintf("%s-%d", component, i), exec.Command(l.kausality, args...))
	return p, err
}

// kubeconfig of a component's ServiceAccount, over the line.
func (l *environment) kubeconfig(ctx context.Context, component string) (file string, err error) {
	if file, err = l.ServiceAccountKubeconfig(ctx, home, "kausality-"+component, itself); err != nil {
		return "", err
	}
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return "", err
	}
	for _, to := range c.Clusters {
		to.Server = "https://" + l.line.address
	}
	next := file + "-next"
	if err := clientcmd.WriteToFile(*c, next); err != nil {
		return "", err
	}
	return file + "-line", os.Rename(next, file+"-line") // another replica may be reading it
}

// args of a component's Deployment as it is now, whose ServiceAccount must be its
// own.
func (l *environment) args(ctx context.Context, component string) ([]string, error) {
	o, err := l.admin.Resource(deployments).Namespace(home).Get(ctx, "kausality-"+component, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	containers, _, _ := unstructured.NestedSlice(pod, "containers")
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if account := pod["serviceAccountName"]; account != "kausality-"+component {
		return nil, fmt.Errorf("the pods of %s run as %v", component, account)
	}
	return args, err
}

func (p *process) ready() bool { return get(p.probe, "readyz") == nil }

func (p *process) await(ctx context.Context) error {
	return controlplane.Eventually(ctx, p.Name()+" to be ready", time.Minute, func(context.Context) error {
		if err := p.Err(); err != nil {
			return err
		}
		return get(p.probe, "readyz")
	})
}

func object(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	return o
}

var forget = metav1.DeleteOptions{}
