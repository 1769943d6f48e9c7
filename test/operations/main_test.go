package operations

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/installation"
)

// environment is what all tests share. They run one after the other: each leaves the
// installation as it found it.
type environment struct {
	*controlplane.ControlPlane
	root, kausality string
	helm            installation.Helm
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

const home = installation.Namespace

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
	l.kausality = built["kausality"]
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
	l.helm = installation.Helm{Program: tools[parts.Helm], Kubeconfig: l.admins, Dir: l.Dir()}
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
type process = installation.Process

// start a component with the arguments of its Deployment, over the line.
func (l *environment) start(ctx context.Context, component string, i int) (*process, error) {
	kubeconfig, err := l.kubeconfig(ctx, component)
	if err != nil {
		return nil, err
	}
	return installation.Start(ctx, l.ControlPlane, l.admin, installation.Component{
		Program: l.kausality, Kubeconfig: kubeconfig, Name: component, Replica: i,
	})
}

// kubeconfig of a component's ServiceAccount, over the line.
func (l *environment) kubeconfig(ctx context.Context, component string) (file string, err error) {
	if file, err = installation.Kubeconfig(ctx, l.ControlPlane, component); err != nil {
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

func object(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	return o
}

var forget = metav1.DeleteOptions{}
