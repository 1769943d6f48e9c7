package site

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

// Site is a control plane with an installation of the chart. Its tests run one after the other.
type Site struct {
	*controlplane.ControlPlane
	// Root of the repository, and the program that is installed.
	Root, Kausality string
	Helm            installation.Helm
	// Admins is the kubeconfig of the installing user, Release the chart that is installed, empty if none is.
	Admins, Release string
	// Services: the API server reaches the webhook through its Service.
	Services         bool
	Admin            dynamic.Interface
	Balancer         *Balancer
	Controller, Gate *Process
	Webhooks         []*Process
	// Line between our components and the API server. Cut, it ends their watches, as
	// the API server does with each after five to ten minutes.
	Line *Balancer
	// Restarted is when the API server was, and Authorized when it knew the roles again; both zero where it was not.
	Restarted, Authorized time.Time

	// changed: the installation is not as the chart has it.
	changed bool
	// absent is when there was none, and the roles were deleted.
	absent []period
}

// LearnedGroup is the group of the tutorial, whose requests are audited, too.
const LearnedGroup = "example.org"

// Home is the Namespace of the installation.
const Home = installation.Namespace

// Main boots a Site, runs the tests of a package on it, and returns the code to exit with.
func Main(m *testing.M, to **Site) int {
	flag.Parse()
	return controlplane.Main(m, func(ctx context.Context) (stop func(), err error) {
		if *to, err = New(); err != nil {
			return nil, err
		}
		err = (*to).Boot(ctx)
		return (*to).End, err
	})
}

// New Site, of which nothing runs yet.
func New() (l *Site, err error) {
	l = &Site{}
	l.Root, err = parts.Root()
	return l, err
}

// End all that runs.
func (l *Site) End() {
	if l.ControlPlane != nil {
		l.Stop()
	}
}

// Boot the control plane, and install the chart.
func (l *Site) Boot(ctx context.Context) (err error) {
	built, err := parts.Ensure(ctx, os.Stderr, "", parts.Kausality)
	if err != nil {
		return err
	}
	tools, err := parts.Ensure(ctx, os.Stderr, "", parts.Helm)
	if err != nil {
		return err
	}
	l.Kausality = built["kausality"]
	addresses, err := serviceRange()
	if l.Services = err == nil; !l.Services {
		fmt.Fprintf(os.Stderr, "the webhook is called by its address and not through its Service: %v\n", err)
	}
	l.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		Out: os.Stderr, Dir: os.Getenv("KAUSALITY_INSTALL_DIR"), AuditLog: true, AuditGroups: []string{LearnedGroup}, ServiceRange: addresses,
	})
	if err != nil {
		return err
	}
	if l.Admin, err = dynamic.NewForConfig(l.ConfigFor("admin")); err != nil {
		return err
	}
	if l.Line, err = newBalancer("127.0.0.1:0"); err != nil {
		return err
	}
	l.Line.add(strings.TrimPrefix(l.Config().Host, "https://"), func() bool { return true })
	if l.Admins, err = l.Kubeconfig("admin", ""); err != nil {
		return err
	}
	l.Helm = installation.Helm{Program: tools[parts.Helm], Kubeconfig: l.Admins, Dir: l.Dir()}
	if err := l.Define(ctx, kinds...); err != nil {
		return err
	}
	if err := l.Restrict(ctx, Home); err != nil {
		return err
	}
	return l.Install(ctx, l.Chart())
}

// ConfigFor a client with a user agent.
func (l *Site) ConfigFor(agent string) *rest.Config {
	c := l.Config()
	c.UserAgent, c.QPS, c.WarningHandler = agent, -1, rest.NoWarnings{}
	return c
}

// Process is a component as the chart runs it.
type Process = installation.Process

// StartComponent with the arguments of its Deployment, over the line.
func (l *Site) StartComponent(ctx context.Context, component string, i int) (*Process, error) {
	kubeconfig, err := l.KubeconfigOf(ctx, component)
	if err != nil {
		return nil, err
	}
	return installation.Start(ctx, l.ControlPlane, l.Admin, installation.Component{
		Program: l.Kausality, Kubeconfig: kubeconfig, Name: component, Replica: i,
	})
}

// KubeconfigOf of a component's ServiceAccount, over the line.
func (l *Site) KubeconfigOf(ctx context.Context, component string) (file string, err error) {
	if file, err = installation.Kubeconfig(ctx, l.ControlPlane, component); err != nil {
		return "", err
	}
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return "", err
	}
	for _, to := range c.Clusters {
		to.Server = "https://" + l.Line.Address
	}
	next := file + "-next"
	if err := clientcmd.WriteToFile(*c, next); err != nil {
		return "", err
	}
	return file + "-line", os.Rename(next, file+"-line") // another replica may be reading it
}

// Object of a kind; without a namespace where that is empty.
func Object(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	return o
}

// Forget is how objects are deleted.
var Forget = metav1.DeleteOptions{}
