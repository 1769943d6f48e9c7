// Command demo plays Kausality's main job for users: it builds what it needs,
// boots a control plane with Crossplane and everything of ours, and plays the
// story of hans's database. Exit status 0 only if everything went as it should.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

func main() {
	keep := flag.Bool("keep", false, "leave everything running in the end, with a database to try things on")
	dir := flag.String("dir", "", "work in this directory and leave the logs there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *keep, *dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool, dir string) error {
	began := time.Now()
	if err := announce(); err != nil {
		return err
	}
	e, err := story.Start(ctx, story.Options{Dir: dir, Out: os.Stdout, Webhook: true, Function: true})
	defer e.Stop()
	if err != nil {
		return err
	}
	t := &story.Teller{Out: os.Stdout, Color: term.IsTerminal(int(os.Stdout.Fd()))}
	if err := story.Play(ctx, e, t, story.Chapters); err != nil {
		return fmt.Errorf("%w; run it again with DIR=… to keep the logs", err)
	}
	fmt.Printf("\nEverything went as it should, in %.0fs.\n", time.Since(began).Seconds())
	if !keep {
		return nil
	}
	fmt.Println("\nOnce more, for you:")
	if err := story.Play(ctx, e, t, story.Chapters[:2]); err != nil {
		return err
	}
	return wait(ctx, e)
}

// announce what a cold start costs, before it is spent.
func announce() error {
	missing, err := parts.Missing("", story.Parts()...)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	var cold time.Duration
	for _, p := range missing {
		cold += p.Cold
	}
	fmt.Printf("The first run builds %d programs from their Go modules: about %.0f minutes on 2 cores. They are kept in bin/.\n",
		len(missing), cold.Minutes()+1)
	return nil
}

// wait until the user ends the demo.
func wait(ctx context.Context, e *story.Env) error {
	hans, err := e.Kubeconfig("hans", story.Hans)
	if err != nil {
		return err
	}
	admin, err := e.Kubeconfig("admin", "")
	if err != nil {
		return err
	}
	fmt.Printf(`
It goes on running until you press Ctrl-C. In another terminal:

  export KUBECONFIG=%s   # you are hans; the administrator is %s
  kubectl get xdatabases,databases,drifts
  kubectl patch xdatabase orders --type=merge -p '{"spec":{"size":50}}'
  kubectl get databases -o yaml | grep kausality.io
  kubectl delete databases --all
  curl %s/_log
`, hans, admin, e.CloudURL())
	<-ctx.Done()
	return nil
}
