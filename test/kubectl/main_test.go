package kubectl

import (
	"context"
	"flag"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// environment is what all tests share: the story's control plane, with its XR settled.
type environment struct {
	*story.Env
	// plugin is the path of the binary under test, hans the kubeconfig of its
	// user.
	plugin, hans string
}

var (
	the    *environment
	update = flag.Bool("update", false, "write testdata")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, bootShared))
}

// bootShared boots what all tests share.
func bootShared(ctx context.Context) (stop func(), err error) {
	the, err = boot(ctx)
	if the.Env != nil {
		stop = the.Stop
	}
	return stop, err
}

// access of hans: to databases in whatever form, as in the story, and what the
// plugin needs beside; docs/kubectl.md.
var access = []rbacv1.PolicyRule{
	{APIGroups: []string{"example.org", "cloud.example.org", "kubernetes.m.crossplane.io", "kausality.io", "apiextensions.crossplane.io"},
		Resources: []string{"*"}, Verbs: []string{"*"}},
	{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list"}},
	{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
}

func boot(ctx context.Context) (*environment, error) {
	l := &environment{}
	built, err := parts.Ensure(ctx, os.Stderr, "", parts.KubectlKausality)
	if err != nil {
		return l, err
	}
	l.plugin = built["kubectl-kausality"]
	if l.Env, err = story.Start(ctx, story.Options{Dir: os.Getenv("KAUSALITY_PLUGIN_DIR"), Out: os.Stderr, Webhook: true, Function: true,
		WaitForPort: true}); err != nil {
		return l, err
	}
	if err := l.Grant(ctx, story.Hans, access...); err != nil {
		return l, err
	}
	if l.hans, err = l.Kubeconfig("hans", story.Hans); err != nil {
		return l, err
	}
	return l, story.Play(ctx, l.Env, &story.Teller{Out: os.Stderr}, story.Chapters[:2])
}
