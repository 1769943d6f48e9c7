package recovery

import (
	"context"
	"flag"
	"os"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// velero restores backups, with all rights.
const velero = "system:serviceaccount:velero:velero"

var the *story.Env

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, boot))
}

func boot(ctx context.Context) (stop func(), err error) {
	the, err = story.Start(ctx, story.Options{
		Dir: os.Getenv("KAUSALITY_RECOVERY_DIR"), Out: os.Stderr, Webhook: true, Function: true, WithoutObjects: true,
	})
	return the.Stop, err
}

// as is a client that is a user, with all rights.
func as(user string) (dynamic.Interface, error) {
	c := rest.CopyConfig(the.ConfigAsMaster(user))
	c.QPS, c.WarningHandler = -1, rest.NoWarnings{}
	return dynamic.NewForConfig(c)
}
