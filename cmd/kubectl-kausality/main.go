// Command kubectl-kausality is the kubectl plugin of Kausality: kubectl finds it
// on the path as `kubectl kausality`. Package cli implements it.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // the zones of windows, also where the image has none

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/kausality-io/function-kausality/cli"
)

// buildVersion is set by the linker.
var buildVersion string

// main runs the plugin. cli.Finish prints an error and returns the exit code.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	klog.SetLogger(logr.Discard()) // client-go also returns as errors what it logs
	cmd, err := cli.NewCommand(streams, version())
	if err == nil {
		err = cmd.ExecuteContext(ctx)
	}
	stop()
	os.Exit(cli.Finish(streams.ErrOut, err))
}

// version set by the linker, else that of the Go module, else "dev".
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "dev"
}
