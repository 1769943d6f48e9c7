package story

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// Options of an Env.
type Options struct {
	// Dir to work in; a temporary one where empty.
	Dir string
	// Out takes the progress of what takes time.
	Out io.Writer
	// Webhook and Function select the parts of Kausality that run.
	Webhook, Function bool
	// Install installs Kausality, starts it, and grants users what they may do, in place of all that Start does for that.
	Install func(ctx context.Context, e *Env) error
	// Kausality is the program to run; built from the repository where empty.
	Kausality string
	// SteadyBreaker keeps the defaults of Crossplane's circuit breaker.
	SteadyBreaker bool
	// CreationGrace keeps the default of the gate's grace after a creation, which is none otherwise.
	CreationGrace bool
	// SyncInterval after which Crossplane reconciles every composite; its default where 0.
	SyncInterval time.Duration
	// SettleGrace of the webhook; a second where 0.
	SettleGrace time.Duration
	// WithoutObjects starts no provider-kubernetes.
	WithoutObjects bool
	// ProviderKubernetes is the part that is started as provider-kubernetes; parts.ProviderKubernetes where empty.
	ProviderKubernetes string
	// Kro starts the controller of kro.
	Kro bool
	// Resources are guarded beside those of the story.
	Resources []string
	// ProviderArgs are further arguments of the test provider.
	ProviderArgs []string
	// WebhookArgs are further arguments of the webhook.
	WebhookArgs []string
	// AuditWrites are resources whose writes the audit log holds with their objects.
	AuditWrites []string
	// Receiver: webhook and gate send DriftReports to a receiver that is away until the chapter Reported.
	Receiver bool
	// Slack: kausality notify slack shows what is held in a fake Slack. It needs Webhook.
	Slack bool
}

// Env is a control plane with everything of the story on it.
type Env struct {
	*controlplane.ControlPlane
	Options Options
	Cloud   *client.Client
	// Bins are the paths of the programs by the names of their parts.
	Bins parts.Paths
	// Functions are the processes of the composition functions, by name.
	Functions map[string]*controlplane.Process

	admin      dynamic.Interface
	cloudURL   string
	webhookURL string
	receiver   receiver
	slack      slackfake.Driver
	// components are the processes of webhook and gate.
	components []*controlplane.Process
}

const home = "kausality-system"

// Parts that the story needs and does not build from this repository.
func Parts() []string {
	return []string{
		parts.Etcd, parts.KubeAPIServer, parts.KubeControllerManager, parts.Crossplane, parts.ProviderKubernetes,
		parts.PatchAndTransform, parts.AutoReady,
	}
}

// Build what the story needs; kausality is the program to use instead of one
// built from the repository.
func Build(ctx context.Context, out io.Writer, kausality string) (parts.Paths, error) {
	names := append(Parts(), parts.TestProvider)
	if kausality == "" {
		names = append(names, parts.Kausality)
	}
	bins, err := parts.Ensure(ctx, out, "", names...)
	if err == nil && kausality != "" {
		bins[parts.Kausality] = kausality
	}
	return bins, err
}

// Start an Env. Stop it in the end, whatever Start returned.
func Start(ctx context.Context, o Options) (*Env, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.SettleGrace == 0 {
		o.SettleGrace = time.Second
	}
	e := &Env{Options: o, Functions: map[string]*controlplane.Process{}}
	var err error
	if e.Bins, err = Build(ctx, o.Out, o.Kausality); err != nil {
		return e, err
	}
	if o.ProviderKubernetes != "" {
		other, err := parts.Ensure(ctx, o.Out, "", o.ProviderKubernetes)
		if err != nil {
			return e, err
		}
		e.Bins[o.ProviderKubernetes] = other[o.ProviderKubernetes]
	}
	e.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: o.Dir, Out: o.Out, Crossplane: true, Kro: o.Kro, AuditLog: true, AuditWrites: o.AuditWrites, CrossplaneArgs: crossplaneArgs(o),
	})
	if err != nil {
		return e, err
	}
	if e.admin, err = dynamic.NewForConfig(e.Config()); err != nil {
		return e, err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"cloud", e.startCloud}, {"providers", e.startProviders}, {"functions", e.startFunctions},
		{"webhook and gate", e.startKausality}, {"users and offers", e.installOffer},
	} {
		at := time.Now()
		if err := step.do(ctx); err != nil {
			return e, fmt.Errorf("cannot start %s: %w", step.what, err)
		}
		fmt.Fprintf(o.Out, "%-40s %5.1fs\n", step.what, time.Since(at).Seconds())
	}
	return e, nil
}

// crossplaneArgs for the story, which plays weeks in seconds. Crossplane's circuit breaker
// takes that for a loop (100 events, and one more a second) and delays an XR for
// minutes, unless a flag changes that.
func crossplaneArgs(o Options) (args []string) {
	if !o.SteadyBreaker {
		args = append(args, "--circuit-breaker-burst=2000")
	}
	if o.SyncInterval > 0 { // each time an event of each object, which the breaker counts
		args = append(args, "--sync-interval="+o.SyncInterval.String())
	}
	return append(args, "--enable-operations")
}

// Stop everything that Start started.
func (e *Env) Stop() {
	if e.ControlPlane != nil {
		e.ControlPlane.Stop()
	}
}

// As a user, with their groups.
func (e *Env) As(user string) (dynamic.Interface, error) {
	return dynamic.NewForConfig(e.ConfigAs(user, teams[user]...))
}

var teams = map[string][]string{Hans: {"platform-team"}}

// hans may do everything with databases, in whatever form, and approve; and he has the role
// for users of the plugin.
func (e *Env) grantUsers(ctx context.Context) error {
	groups := []string{"example.org", "cloud.example.org", "kubernetes.m.crossplane.io", "kausality.io", "apiextensions.crossplane.io",
		"example.com", "rds.aws.crossplane.io"}
	rules := rbacv1.PolicyRule{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"*"}}
	for _, u := range []string{Hans, Alice} {
		if err := e.Grant(ctx, u, rules); err != nil {
			return err
		}
		if !e.Options.Webhook {
			continue // the roles for users are installed with it
		}
		if err := e.Bind(ctx, u, "kausality-viewer"); err != nil {
			return err
		}
	}
	return nil
}

// installOffer grants users what they may do, unless Install did, and offers XDatabases.
func (e *Env) installOffer(ctx context.Context) error {
	if e.Options.Install == nil {
		if err := e.grantUsers(ctx); err != nil {
			return err
		}
	}
	if err := e.applyExample(ctx, "definition.yaml"); err != nil {
		return err
	}
	if err := controlplane.Eventually(ctx, "kind XDatabase to be offered", 30*time.Second, func(ctx context.Context) error {
		return e.established(ctx, "xdatabases.example.org")
	}); err != nil {
		return err
	}
	return e.Compose(ctx, Composition{Tier: "bronze", Kausality: e.Options.Function})
}

func (e *Env) applyExample(ctx context.Context, name string) error {
	raw, err := Example(name)
	if err != nil {
		return err
	}
	return e.Apply(ctx, raw)
}

// Example file of examples/getting-started.
func Example(name string) ([]byte, error) {
	root, err := parts.Root()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(root, "examples", "getting-started", name))
}

// CloudURL is where the cloud answers.
func (e *Env) CloudURL() string { return e.cloudURL }

// WebhookURL is where the webhook answers the API server.
func (e *Env) WebhookURL() string { return e.webhookURL }
