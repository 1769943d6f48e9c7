package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = "usage: summary phases [flags] TARGET… | summary test [flags] [-- go test flags]"

// errFailed: what went wrong has been printed.
var errFailed = errors.New("failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		if !errors.Is(err, errFailed) {
			_, _ = fmt.Fprintln(os.Stderr, "summary:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New(usage)
	}
	switch args[0] {
	case "phases":
		return phases(ctx, args[1:], out)
	case "test":
		return test(ctx, args[1:], out)
	}
	return errors.New(usage)
}
