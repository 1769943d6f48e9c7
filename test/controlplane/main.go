package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
)

// failed: the tests have failed, and the logs of control planes may show why.
var failed atomic.Bool

// Main boots what the tests of a package share, runs them, and stops it. It returns
// the code to exit with, for TestMain:
//
//	os.Exit(controlplane.Main(m, boot))
//
// boot returns what to stop, also with an error, or nil where nothing was started.
// Its context ends when the tests have.
func Main(tests interface{ Run() int }, boot func(context.Context) (stop func(), err error)) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	stop, err := boot(ctx)
	if stop != nil {
		defer stop()
	}

	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "cannot start:", err)

		return 1
	}

	code := tests.Run()
	failed.Store(code != 0)

	return code
}
