package story

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// StartTest starts an Env with the program that KAUSALITY_BINARY names, which make e2e
// takes out of the image, and whose logs are kept below KAUSALITY_E2E_DIR after a
// failure.
func StartTest(t *testing.T, o Options) (context.Context, *Env) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if base := os.Getenv("KAUSALITY_E2E_DIR"); base != "" {
		o.Dir = base + "/" + t.Name()
	}
	o.Out, o.Kausality = os.Stdout, os.Getenv("KAUSALITY_BINARY")
	e, err := Start(ctx, o)
	t.Cleanup(e.Stop)
	require.NoError(t, err)
	return ctx, e
}
