// Package graphs plays what Kausality does for graphs of kro, with kro's real controller: as a story for users, and for the tests of
// test/kro.
package graphs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// Users: Anna writes graphs, Hans an instance. Both have all rights.
const (
	Anna = "anna@example.com"
	Hans = "hans@example.com"
)

// Resources of the story and the tests.
var (
	Graphs     = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "resourcegraphdefinitions"}
	Shops      = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "shops"}
	ConfigMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	Services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	Drifts     = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "drifts"}
)

// Options of an Env.
type Options struct {
	// Dir to work in, whose logs are kept; empty for one that is removed.
	Dir string
	// Out receives what is built and started.
	Out io.Writer
	// Also has the kinds to guard beside those of the graph in examples/kro, as in farms.kro.run.
	Also []string
	// Chart installs the chart, with the policy controller, instead of manifests: nothing is guarded then without a policy.
	Chart bool
	// Recorded has the API server record the objects of these API groups.
	Recorded []string
	// Kausality is the program to run; empty for one that is built from this repository.
	Kausality string
}

// Env is a control plane with kro, webhook and gate, which enforce.
type Env struct {
	*controlplane.ControlPlane
	// Webhook, Gate and Controller of Kausality; the last one with the chart alone.
	Webhook, Gate, Controller *controlplane.Process
	// Bins are the paths of the programs by the names of their parts.
	Bins parts.Paths
}

// Parts that an Env needs and that are not built from this repository.
func Parts() []string {
	return []string{parts.Etcd, parts.KubeAPIServer, parts.KubeControllerManager, parts.Kro, parts.Kubectl}
}

// Start an Env. Stop it in the end, whatever Start returned.
func Start(ctx context.Context, o Options) (*Env, error) {
	e := &Env{}
	names := append(Parts(), parts.KubectlKausality)
	if o.Kausality == "" {
		names = append(names, parts.Kausality)
	}
	var err error
	if e.Bins, err = parts.Ensure(ctx, o.Out, "", names...); err != nil {
		return e, err
	}
	if o.Kausality != "" {
		e.Bins[parts.Kausality] = o.Kausality
	}
	e.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Dir: o.Dir, Out: o.Out, Kro: true, AuditLog: true, AuditGroups: o.Recorded})
	if err != nil {
		return e, err
	}
	if o.Chart {
		return e, e.installChart(ctx)
	}
	return e, e.install(ctx, o.Also)
}

// Stop everything that Start started.
func (e *Env) Stop() {
	if e.ControlPlane != nil {
		e.ControlPlane.Stop()
	}
}

// install webhook and gate.
func (e *Env) install(ctx context.Context, also []string) error {
	certs := filepath.Join(e.Dir(), "webhook-certs")
	if err := e.CA().ServingCert(certs); err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	guarded := append([]string{"resourcegraphdefinitions.kro.run", "shops.kro.run", "configmaps", "services"}, also...)
	out, err := exec.CommandContext(ctx, e.Bins[parts.Kausality], "manifests", fmt.Sprintf("--webhook-url=https://127.0.0.1:%d", port),
		"--ca-file="+filepath.Join(certs, "ca.crt"), "--resources="+strings.Join(guarded, ","), "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality manifests: %w", err)
	}
	if err := e.Apply(ctx, out); err != nil {
		return err
	}
	if e.Webhook, err = e.start(ctx, "webhook", fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--cert-dir="+certs, "--settle-grace=1s"); err != nil {
		return err
	}
	e.Gate, err = e.start(ctx, "gate")
	return err
}

// start a component as its ServiceAccount, and wait until it is ready.
func (e *Env) start(ctx context.Context, name string, args ...string) (*controlplane.Process, error) {
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, "kausality-system", "kausality-"+name)
	if err != nil {
		return nil, err
	}
	health, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	args = append([]string{name, "--kubeconfig=" + kubeconfig, "--default-mode=enforce", fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", health)}, args...)
	p, err := e.Run(ctx, "kausality-"+name, exec.Command(e.Bins[parts.Kausality], args...))
	if err != nil {
		return nil, err
	}
	return p, until(ctx, "the "+name+" to be ready", func(ctx context.Context) error {
		return controlplane.Answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", health))
	})
}

// until something holds.
func until(ctx context.Context, what string, f func(context.Context) error) error {
	return controlplane.Eventually(ctx, what, time.Minute, f)
}

// As a user, with all rights; the field manager is the last part of its name.
func (e *Env) As(user string) (dynamic.Interface, error) {
	return dynamic.NewForConfig(e.ConfigAsMaster(user))
}

// Example is a file of examples/kro.
func Example(name string) ([]byte, error) {
	root, err := parts.Root()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(root, "examples", "kro", name)) //nolint:gosec // Part of the repository.
}

// Write a graph as Anna, given as YAML, and wait until kro carries it out.
func (e *Env) Write(ctx context.Context, graph []byte) error {
	want := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(graph, &want.Object); err != nil {
		return fmt.Errorf("cannot read a graph: %w", err)
	}
	c, err := e.As(Anna)
	if err != nil {
		return err
	}
	o, err := c.Resource(Graphs).Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: "anna", Force: true})
	if err != nil {
		return fmt.Errorf("cannot write the graph: %w", err)
	}
	return until(ctx, "kro to carry out graph "+want.GetName(), func(ctx context.Context) error {
		is, err := c.Resource(Graphs).Get(ctx, want.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		return CarriedOut(is, o.GetGeneration())
	})
}

// errState is the error of State and CarriedOut.
var errState = errors.New("it is not so yet")

// CarriedOut returns an error unless kro serves a generation of a graph.
func CarriedOut(graph *unstructured.Unstructured, generation int64) error {
	conditions, _, _ := unstructured.NestedSlice(graph.Object, "status", "conditions")
	for _, e := range conditions {
		if c, _ := e.(map[string]any); c["status"] != "True" || c["observedGeneration"] != generation {
			return fmt.Errorf("%w: generation %d: %v", errState, generation, c)
		}
	}
	return State(graph, "Active")
}

// State returns an error unless kro reports a state of an object.
func State(o *unstructured.Unstructured, want string) error {
	if is, _, _ := unstructured.NestedString(o.Object, "status", "state"); is != want {
		return fmt.Errorf("%w: %s is %q: %v", errState, o.GetName(), is, o.Object["status"])
	}
	return nil
}
