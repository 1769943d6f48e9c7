package page

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

const (
	hans  = "hans@example.com"
	anna  = "anna@example.com"
	alice = "alice@example.com"
	// erin has rights of her own, which no other test has.
	erin = "erin@example.com"
	// mallory has no rights.
	mallory = "mallory@example.com"
	// crossplane is the user of Crossplane.
	crossplane = "system:serviceaccount:crossplane-system:crossplane"
	home       = "kausality-system"
)

// environment is what all tests share.
type environment struct {
	*controlplane.ControlPlane
	bins parts.Paths
	// kubeconfigs of users, by their name.
	kubeconfigs map[string]string
	cloud       *client.Client
	cloudURL    string
	// bare is what kubectl kausality tui has ended with before the CRDs were installed.
	bare ended
	// browser is the context of Chromium; nil where the machine has none.
	browser context.Context //nolint:containedctx // A browser of chromedp is a context.
}

var (
	the    = &environment{kubeconfigs: map[string]string{}}
	update = flag.Bool("update", false, "write the pictures in docs/images")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // they mostly wait
		panic(err)
	}
	os.Exit(controlplane.Main(m, bootShared))
}

// bootShared boots what all tests share; no browser where there is no Chromium.
func bootShared(ctx context.Context) (stop func(), err error) {
	the.bins, err = parts.Ensure(ctx, os.Stderr, "", parts.Kausality, parts.KubectlKausality, parts.TestProvider)
	if err != nil {
		return nil, err
	}
	the.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stderr, Dir: os.Getenv("KAUSALITY_INTEGRATION_DIR")})
	if err != nil {
		return nil, err
	}
	stop = the.Stop
	if program := chromium(); program != "" {
		ended, err := the.startBrowser(ctx, program)
		if err != nil {
			return stop, err
		}
		stop = func() {
			ended()
			the.Stop()
		}
	}
	for _, step := range []func(context.Context) error{the.withoutCRDs, the.installCRDs, the.startCloud, the.startKausality, the.admit} {
		if err := step(ctx); err != nil {
			return stop, err
		}
	}
	return stop, nil
}

// installCRDs of the managed resource, of the composite, and of revisions of Compositions.
func (l *environment) installCRDs(ctx context.Context) error {
	root, err := parts.Root()
	if err != nil {
		return err
	}
	for _, name := range []string{"cloud.example.org_databases.yaml", "rds.aws.crossplane.io_rdsinstances.yaml"} { // the provider watches both
		raw, err := os.ReadFile(filepath.Join(root, "test", "provider", "crds", name))
		if err != nil {
			return err
		}
		if err := l.Apply(ctx, raw); err != nil {
			return err
		}
	}
	all, err := parts.CRDs(ctx, parts.Crossplane)
	if err != nil {
		return err
	}
	objects, err := controlplane.Decode(all)
	if err != nil {
		return err
	}
	a, err := controlplane.NewApplier(l.Config(), "kubectl")
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.GetName() != "compositionrevisions.apiextensions.crossplane.io" {
			continue
		}
		delete(o.Object["spec"].(map[string]any), "conversion") // nothing serves it here
		if err := a.Objects(ctx, o); err != nil {
			return err
		}
	}
	return l.Define(ctx, controlplane.Kind{Group: "example.org", Kind: "XStore", Categories: []string{"composite"}})
}

// startCloud and the provider that writes to it.
func (l *environment) startCloud(ctx context.Context) error {
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	l.cloudURL = fmt.Sprintf("http://127.0.0.1:%d", port)
	if _, err := l.Serve(ctx, "cloud", exec.Command(l.bins[parts.TestProvider], "cloud", fmt.Sprintf("--address=127.0.0.1:%d", port))); err != nil {
		return err
	}
	l.cloud = client.New(l.cloudURL)
	if err := controlplane.Eventually(ctx, "the cloud to answer", 20*time.Second, l.cloud.Healthy); err != nil {
		return err
	}
	kubeconfig, err := l.ServiceAccountKubeconfig(ctx, "crossplane-system", "provider-cloud")
	if err != nil {
		return err
	}
	cmd := exec.Command(l.bins[parts.TestProvider], "run", "--kubeconfig="+kubeconfig, "--cloud-url="+l.cloudURL,
		"--poll-interval=1s", "--creation-grace-period=0s", "--max-requeue-delay=1s", "--max-reconcile-rate=100")
	cmd.Args[0] = "provider" // its field manager, as in a cluster
	return l.component(ctx, "provider", cmd)
}

// startKausality as a user installs it.
func (l *environment) startKausality(ctx context.Context) error {
	certs := filepath.Join(l.Dir(), "webhook-certs")
	if err := l.CA().ServingCert(certs); err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, l.bins[parts.Kausality], "manifests", fmt.Sprintf("--webhook-url=https://127.0.0.1:%d", port),
		"--ca-file="+filepath.Join(certs, "ca.crt"), "--resources=*.example.org,*.cloud.example.org", "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality manifests: %w", err)
	}
	if err := l.Apply(ctx, out); err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"webhook": {fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--cert-dir=" + certs, "--settle-grace=1s", "--shutdown-delay=0s"},
		"gate":    {"--creation-grace=0s"},
	} {
		nothing := rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}, Verbs: []string{"create"}}
		kubeconfig, err := l.ServiceAccountKubeconfig(ctx, home, "kausality-"+name, nothing) // its rights are those of the manifests
		if err != nil {
			return err
		}
		cmd := exec.Command(l.bins[parts.Kausality], slices.Concat([]string{name, "--kubeconfig=" + kubeconfig, "--default-mode=enforce"}, args)...)
		if err := l.component(ctx, name, cmd); err != nil {
			return err
		}
	}
	return nil
}

// component is a process that tests rely on, once it is ready.
func (l *environment) component(ctx context.Context, name string, cmd *exec.Cmd) error {
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	probe := fmt.Sprintf("127.0.0.1:%d", port)
	cmd.Args = append(cmd.Args, "--health-probe-bind-address="+probe)
	if _, err := l.Serve(ctx, name, cmd); err != nil {
		return err
	}
	return controlplane.Eventually(ctx, name+" to be ready", 90*time.Second, func(ctx context.Context) error {
		return controlplane.Answers(ctx, "http://"+probe+"/readyz")
	})
}

// decides is the right to read the objects of the tests, and to decide on them.
var decides = rbacv1.PolicyRule{APIGroups: []string{"example.org", "cloud.example.org"}, Resources: []string{"*"},
	Verbs: []string{"get", "list", "watch", "patch"}}

// admit the users of the page: they look as kausality-viewer, and decide on parents.
func (l *environment) admit(ctx context.Context) error {
	var err error
	if l.kubeconfigs[mallory], err = l.Kubeconfig(mallory, mallory); err != nil {
		return err
	}
	for _, user := range []string{hans, anna, erin} {
		if err := l.Bind(ctx, user, "kausality-viewer"); err != nil {
			return err
		}
		if err := l.Grant(ctx, user, decides); err != nil {
			return err
		}
		config, err := l.Kubeconfig(user, user)
		if err != nil {
			return err
		}
		l.kubeconfigs[user] = config
	}
	return nil
}

// as is a client that is a user; its field manager is the last part of its name.
func (l *environment) as(user string) (dynamic.Interface, error) {
	return dynamic.NewForConfig(l.ConfigAsMaster(user))
}
