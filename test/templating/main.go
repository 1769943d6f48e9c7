// Command templating is a stand-in for function-patch-and-transform: a
// composition function that understands the part of its input which the
// examples of this repository use. Tests and the demo run it as a process of
// its own, so that the examples need neither an image nor a registry.
//
// Its flags are those of every function built on function-sdk-go. It serves no
// metrics: the SDK's default port 8080 is the one provider-kubernetes insists
// on, and all of them share one machine here.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	function "github.com/crossplane/function-sdk-go"

	"github.com/kausality-io/function-kausality/test/templating/pt"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

type options struct {
	debug    bool
	network  string
	address  string
	certsDir string
	insecure bool
}

func main() {
	o, err := parse(os.Args[1:], os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "templating: %v (see templating --help)\n", err)
		os.Exit(exitUsage)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	failed := make(chan error, 1)
	go func() { failed <- serve(o) }()
	select {
	case <-stop:
	case err := <-failed:
		fmt.Fprintf(os.Stderr, "templating: %v\n", err)
		os.Exit(exitFailed)
	}
}

// parse the arguments. Errors are usage errors, of one line.
func parse(args []string, getenv func(string) string) (options, error) {
	o := options{}
	fs := flag.NewFlagSet("templating", flag.ContinueOnError)
	fs.BoolVar(&o.debug, "debug", false, "emit debug logs in addition to info logs")
	fs.BoolVar(&o.debug, "d", false, "short for --debug")
	fs.StringVar(&o.network, "network", function.DefaultNetwork, "network on which to listen for gRPC connections")
	fs.StringVar(&o.address, "address", function.DefaultAddress, "address on which to listen for gRPC connections")
	fs.StringVar(&o.certsDir, "tls-certs-dir", getenv("TLS_SERVER_CERTS_DIR"), "directory with tls.key, tls.crt and the ca.crt that verifies clients [$TLS_SERVER_CERTS_DIR]")
	fs.BoolVar(&o.insecure, "insecure", false, "serve without mTLS; --tls-certs-dir is then ignored")
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(os.Stdout)
			fs.PrintDefaults()
		}
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.certsDir == "" && !o.insecure {
		return o, errors.New("either --tls-certs-dir or --insecure is required")
	}
	return o, nil
}

func serve(o options) error {
	log, err := function.NewLogger(o.debug)
	if err != nil {
		return fmt.Errorf("cannot create logger: %w", err)
	}
	credentials := function.MTLSCertificates(o.certsDir)
	if o.insecure {
		credentials = function.Insecure(true)
	}
	return function.Serve(pt.NewFunction(log),
		function.Listen(o.network, o.address),
		credentials,
		function.WithMetricsServer(""))
}
