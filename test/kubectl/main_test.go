package kubectl

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// environment is what all tests share: the story's control plane, with its XR settled.
type environment struct {
	*story.Env
	// plugin is the path of the binary under test, hans the kubeconfig of its
	// user, who has what the story gives him and the role kausality-viewer (KR-12-27).
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

func boot(ctx context.Context) (*environment, error) {
	l := &environment{}
	built, err := parts.Ensure(ctx, os.Stderr, "", parts.KubectlKausality)
	if err != nil {
		return l, err
	}
	l.plugin = built["kubectl-kausality"]
	if l.Env, err = story.Start(ctx, story.Options{Dir: os.Getenv("KAUSALITY_PLUGIN_DIR"), Out: os.Stderr, Webhook: true, Function: true}); err != nil {
		return l, err
	}
	if l.hans, err = l.Kubeconfig("hans", story.Hans); err != nil {
		return l, err
	}
	return l, story.Play(ctx, l.Env, &story.Teller{Out: os.Stderr}, story.Chapters[:2])
}
