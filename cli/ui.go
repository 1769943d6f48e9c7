package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/channel/page"
	looks "github.com/kausality-io/function-kausality/channel/view"
)

// uiCommand serves the page on which users look and decide.
type uiCommand struct {
	*session
	arguments
	port      int
	noBrowser bool
	// open a URL in the browser; nil for that of the system.
	open func(ctx context.Context, url string) error
}

// newUICommand returns `kubectl kausality ui`.
func newUICommand(s *session) *cobra.Command {
	c := &uiCommand{session: s}
	cmd := &cobra.Command{
		Use: "ui", Short: "Show pending changes on a web page of your own, and decide about them there.",
		Long: "Serves a web page on this computer alone, with your kubeconfig, until Ctrl-C: what waits by its cause, each change from the user to the cloud, its " +
			"difference and votes; and approves, rejects, withdraws, snoozes, freezes, unfreezes and makes exceptions as you. The URL that it prints is good once, " +
			"for ten minutes, in the browser that opens it first.",
		Example: `  kubectl kausality ui

  # Print the URL alone, on a fixed port
  kubectl kausality ui --no-browser --port 8090`,
		Args: noArgs,
		RunE: runs(c),
	}
	cmd.Flags().IntVar(&c.port, "port", 0, "Port on 127.0.0.1; 0 takes a free one.")
	cmd.Flags().BoolVar(&c.noBrowser, "no-browser", false, "Print the URL, and open no browser.")
	return cmd
}

// validate validates the port.
func (c *uiCommand) validate() error {
	if c.port < 0 || c.port > 65535 {
		return usageError{errors.New("--port must be from 0 to 65535")}
	}
	return nil
}

// run serves the page until the context ends or Ctrl-C (KR-17-13).
func (c *uiCommand) run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)))
	if err != nil {
		return fmt.Errorf("cannot listen on 127.0.0.1: %w", err)
	}
	defer listener.Close() //nolint:errcheck // The server closes it, too.
	p, err := c.page(ctx, listener.Addr())
	if err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	url := "http://" + listener.Addr().String() + p.Link()
	fmt.Fprintf(c.Out, "%s\n", url)
	fmt.Fprintln(c.ErrOut, "The URL is good once, for ten minutes. Ctrl-C ends the page.")
	if !c.noBrowser {
		end, err := c.browse(ctx, url)
		defer end()
		if err != nil {
			fmt.Fprintf(c.ErrOut, "No browser was opened (%v); open the URL yourself.\n", err)
		}
	}
	go p.Run(ctx)
	return page.ServeUntil(ctx, listener, p)
}

// page returns the page for the user of the kubeconfig at an address.
func (c *uiCommand) page(ctx context.Context, at net.Addr) (*page.Local, error) {
	options, cluster, err := c.looks(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil, fmt.Errorf("cannot read the address: %w", err)
	}
	return page.NewLocal(page.Options{Options: options, Cluster: cluster}, net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("localhost", port))
}

// looks returns the options of a view of the cluster for the user of the kubeconfig, and the name of its context.
func (s *session) looks(ctx context.Context) (o looks.Options, cluster string, err error) {
	config, err := s.config()
	if err != nil {
		return o, "", err
	}
	conn, err := s.connection()
	if err != nil {
		return o, "", err
	}
	user, err := s.user(ctx)
	if err != nil {
		return o, "", err
	}
	cluster, err = contextName(s.kube)
	return looks.Options{
		Config: config, Mapper: conn.mapper, DefaultMode: s.defaultMode, User: user.Name, Namespace: conn.namespace, Now: s.view.now,
	}, cluster, err
}

// memoryLimit of the process in bytes, a soft one: where it holds more, as with many more than 10,000 changes, the garbage collector runs more often. The
// environment variable GOMEMLIMIT sets another.
const memoryLimit = 80 << 20

// browse opens a URL in the user's browser, and does not wait for it. end removes what it has written.
func (c *uiCommand) browse(ctx context.Context, url string) (end func(), err error) {
	if c.open != nil {
		return func() {}, c.open(ctx, url)
	}
	file, end, err := leadTo(url)
	if err != nil {
		return end, err
	}
	program := cmp.Or(map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS], "xdg-open")
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, file) // it outlives the page
	if err := cmd.Start(); err != nil {
		return end, err
	}
	go cmd.Wait() //nolint:errcheck // Whether the browser succeeds, the user sees.
	return end, nil
}

// leadTo writes a file that leads a browser to a URL, and that the user alone may read: other users of the computer may read the arguments of processes.
// end removes it.
func leadTo(url string) (file string, end func(), err error) {
	dir, err := os.MkdirTemp("", "kausality-ui-")
	if err != nil {
		return "", func() {}, fmt.Errorf("cannot write the file that leads to the page: %w", err)
	}
	end = func() { os.RemoveAll(dir) } //nolint:errcheck // The URL in it is good for ten minutes.
	file = filepath.Join(dir, "open.html")
	leads := fmt.Sprintf("<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url=%[1]s\"><a href=\"%[1]s\">Kausality</a>\n", url)
	if err := os.WriteFile(file, []byte(leads), 0o600); err != nil {
		return "", end, fmt.Errorf("cannot write the file that leads to the page: %w", err)
	}
	return file, end, nil
}
