package soak

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/hack/campaign"
	"github.com/kausality-io/function-kausality/test/auditlog"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

var (
	lasts   = flag.Duration("soak.for", 3*time.Minute, "how long composites live")
	kinds   = flag.Int("soak.kinds", 4, "kinds of composites")
	each    = flag.Int("soak.each", 2, "composites of a kind")
	seed    = flag.Uint64("soak.seed", 1, "of what happens")
	results = campaign.Register()
)

// environment that all composites share.
type environment struct {
	*story.Env
	users map[string]dynamic.Interface
	log   *auditlog.Tail
	// metrics is the URL of those of the webhook.
	metrics string
}

var the *environment

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, boot))
}

func boot(ctx context.Context) (stop func(), err error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	the = &environment{users: map[string]dynamic.Interface{}, metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port)}
	the.Env, err = story.Start(ctx, story.Options{
		Dir: os.Getenv("KAUSALITY_SOAK_DIR"), Out: os.Stderr, Kausality: os.Getenv("KAUSALITY_BINARY"), Webhook: true, Function: true, WithoutObjects: true,
		SteadyBreaker: true, CreationGrace: true, SettleGrace: 10 * time.Second,
		AuditWrites:  []string{"*.example.org", "*.cloud.example.org", "configmaps", "drifts.kausality.io"},
		ProviderArgs: []string{"--poll-interval=10s"}, // which is a minute in a cluster; a second keeps two processors busy with statuses
		WebhookArgs:  []string{fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", port)},
	})
	if err != nil {
		return the.Stop, err
	}
	for user, config := range map[string]*rest.Config{"": the.Config(), story.Hans: the.ConfigAs(story.Hans), story.Alice: the.ConfigAs(story.Alice)} {
		config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
		if the.users[user], err = dynamic.NewForConfig(config); err != nil {
			return the.Stop, err
		}
	}
	the.log = auditlog.NewTail(the.AuditLog())
	for k := range *kinds {
		if err := the.Apply(ctx, definition(k).XRD()); err != nil {
			return the.Stop, fmt.Errorf("cannot offer kind %d: %w", k, err)
		}
	}
	return the.Stop, nil
}
