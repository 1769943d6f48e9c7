package documented

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

var (
	// the Site of the tests that type commands; others read pages alone.
	the *site.Site
	// boot it once.
	boot func() error
)

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, func(ctx context.Context) (stop func(), err error) {
		if the, err = site.New(); err != nil {
			return nil, err
		}
		boot = sync.OnceValue(func() error { return the.Boot(ctx) })
		return func() { the.End() }, nil
	}))
}

// TestForbidden: each component has the access that it needs. It is parallel to others, as no other test is: it runs after them.
func TestForbidden(t *testing.T) {
	t.Parallel()
	require.NoError(t, boot())
	the.NothingRefused(t)
}
