package playground

import (
	"context"
	"embed"
	"fmt"
	"io"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/installation"
)

//go:embed manifests
var manifests embed.FS

// policyName is that of manifests/policy.yaml, which covers as many kinds: XDatabase, Database and Object.
const (
	policyName   = "databases"
	guardedKinds = 3
)

// users of the playground, with their groups. The first one is that of the kubeconfig's current context.
var users = []struct{ name, group string }{{"hans", "shop"}, {"alice", "dba"}, {"bob", "dba"}, {"admin", ""}}

// Playground is a control plane to try Kausality on.
type Playground struct {
	*story.Env
	tools parts.Paths
}

// Parts that a playground needs in addition to those of the story.
func Parts() []string {
	return []string{parts.Helm, parts.Kubectl, parts.CrossplaneCLI, parts.KubectlKausality}
}

// Start a playground in a directory; a temporary one where it is empty. What it does goes to out. Stop it in the end, whatever
// Start returned.
func Start(ctx context.Context, dir string, out io.Writer) (*Playground, error) {
	p := &Playground{}
	var err error
	if p.tools, err = parts.Ensure(ctx, out, "", Parts()...); err != nil {
		return p, err
	}
	if p.Env, err = story.Start(ctx, story.Options{Dir: dir, Out: out, Function: true, Install: p.install}); err != nil {
		return p, err
	}
	if err := p.guard(ctx); err != nil {
		return p, err
	}
	return p, p.write(ctx)
}

// Stop the playground.
func (p *Playground) Stop() {
	if p.Env != nil {
		p.Env.Stop()
	}
}

// install the chart, and run its components.
func (p *Playground) install(ctx context.Context, e *story.Env) error {
	root, err := parts.Root()
	if err != nil {
		return err
	}
	admin, err := e.Kubeconfig("admin", "")
	if err != nil {
		return err
	}
	address, err := installation.FreeAddress()
	if err != nil {
		return err
	}
	helm := installation.Helm{Program: p.tools[parts.Helm], Kubeconfig: admin, Dir: e.Dir()}
	if _, err := helm.Run(ctx, "install", "kausality", filepath.Join(root, "package", "helm", "kausality"),
		"--namespace", installation.Namespace, "--create-namespace", "--set", "image.repository=kausality", "--set", "image.tag=playground",
		"--set", "webhook.url=https://"+address, "--set", "webhook.approverRBAC=true", "--set", "webhook.settleGrace=3s",
		"--set", "gate.creationGrace=0s"); err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(e.Config())
	if err != nil {
		return err
	}
	var started []*installation.Process
	for _, component := range []installation.Component{{Name: "controller"}, {Name: "webhook", Address: address}, {Name: "gate"}} {
		component.Program = e.Bins[parts.Kausality]
		if component.Kubeconfig, err = installation.Kubeconfig(ctx, e.ControlPlane, component.Name); err != nil {
			return err
		}
		process, err := installation.Start(ctx, e.ControlPlane, c, component)
		if err != nil {
			return err
		}
		started = append(started, process)
	}
	for _, process := range started {
		if err := process.Await(ctx); err != nil {
			return err
		}
	}
	return p.apply(ctx, e, "users.yaml")
}

func (p *Playground) apply(ctx context.Context, e *story.Env, manifest string) error {
	raw, err := manifests.ReadFile("manifests/" + manifest)
	if err != nil {
		return err
	}
	return e.Apply(ctx, raw)
}

// guard the kinds of the story by a policy, and wait until the API server calls the webhook for them.
func (p *Playground) guard(ctx context.Context) error {
	// The API server learns of the kinds that our ValidatingAdmissionPolicies read some seconds after it serves them.
	err := controlplane.Eventually(ctx, "the policy to be admitted", time.Minute, func(ctx context.Context) error { return p.apply(ctx, p.Env, "policy.yaml") })
	if err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		return err
	}
	policies := c.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceKausalities))
	return controlplane.Eventually(ctx, "the policy to be in effect", time.Minute, func(ctx context.Context) error {
		o, err := policies.Get(ctx, policyName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var policy v1alpha1.Kausality
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &policy); err != nil {
			return err
		}
		if policy.Status.Resources < guardedKinds {
			return fmt.Errorf("it covers %d kinds, expected %d", policy.Status.Resources, guardedKinds)
		}
		return controlplane.ConditionTrue(o, "WebhookConfigured")
	})
}
