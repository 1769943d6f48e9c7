// Command image makes and checks container images without Docker.
//
//	image build --binary FILE --arch ARCH --version V --output FILE
//	image inspect [--package] FILE…
//	image extract --output FILE IMAGE
//	image registry [--address HOST:PORT]
//	image layout --output DIR IMAGE…
//	image archive --output FILE FILE…
//	image krew --version V --url URL --output FILE ARCHIVE…
//	image checksums --version V DIR
//
// `make image`, `make package` and `make release` call it; relative paths are relative to where
// it runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/kausality-io/function-kausality/test/image/oci"
)

const usage = "usage: image build|inspect|extract|registry|layout|archive|krew|checksums [flags]; image COMMAND --help lists the flags"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, help io.Writer) error {
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"build": build, "inspect": inspect, "extract": extract, "registry": serve,
		"layout": writeLayout, "archive": archive, "krew": krew, "checksums": checksums,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New(usage)
	}
	return commands[args[0]](ctx, args[1:], out, help)
}

func build(_ context.Context, args []string, out, help io.Writer) error {
	fs := flags("build", help)
	var o oci.Options
	fs.StringVar(&o.Binary, "binary", "", "static Linux program that becomes "+oci.Entrypoint)
	fs.StringVar(&o.Arch, "arch", "", "architecture: amd64 or arm64")
	fs.StringVar(&o.Version, "version", "", "version for the tag and the labels")
	fs.StringVar(&o.Output, "output", "", "tarball to write, as docker load reads it")
	if err := fs.Parse(args); err != nil {
		return err
	}
	digest, err := oci.Build(o)
	if err == nil {
		_, _ = fmt.Fprintf(out, "%s %s\n", o.Output, digest)
	}
	return err
}

func extract(_ context.Context, args []string, out, help io.Writer) error {
	fs := flags("extract", help)
	output := fs.String("output", "", "file to write the program to")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 1 || *output == "" {
		return errors.New("extract: name one image and --output")
	}
	if err := oci.Extract(fs.Arg(0), *output); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, *output)
	return nil
}

func inspect(_ context.Context, args []string, out, help io.Writer) error {
	fs := flags("inspect", help)
	pkg := fs.Bool("package", false, "the files must be Crossplane packages")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("inspect: name the image tarballs or packages to look at")
	}
	var failed error
	for _, file := range fs.Args() {
		report, err := oci.Inspect(file)
		if err == nil && *pkg && report.Package == nil {
			err = fmt.Errorf("%s: is no Crossplane package: no layer is marked as one", file)
		}
		if report != nil {
			_, _ = fmt.Fprint(out, report)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// serve a registry that forgets everything when it ends.
func serve(ctx context.Context, args []string, out, help io.Writer) error {
	fs := flags("registry", help)
	address := fs.String("address", "127.0.0.1:5000", "address to listen on; port 0 picks a free one")
	if err := fs.Parse(args); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", *address, err)
	}
	_, _ = fmt.Fprintln(out, "listening on", l.Addr())
	s := &http.Server{Handler: registry.New(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve the registry: %w", err)
	}
	return nil
}

func flags(name string, help io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(help)
	return fs
}
