// Command demo plays Kausality's main job for users: it builds what it needs,
// boots a control plane with Crossplane and everything of ours, and plays the
// story of hans's database. Exit status 0 only if everything went as it should.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/kro/graphs"
	"github.com/kausality-io/function-kausality/test/playground"
)

func main() {
	keep := flag.Bool("keep", false, "leave a playground running in the end")
	kro := flag.Bool("kro", false, "play the story of a graph of kro")
	stop := flag.Bool("stop", false, "stop the playground of --dir")
	dir := flag.String("dir", "", "work in this directory and leave the logs there")
	flag.Parse()
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *keep, *stop, *kro, *dir)
	done()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, keep, stop, kro bool, dir string) error {
	if stop {
		return end(ctx, dir)
	}
	needed := append(story.Parts(), parts.Tofu)
	if kro {
		needed = graphs.Parts()
	}
	if keep {
		needed = append(needed, playground.Parts()...)
	}
	if err := announce(needed); err != nil {
		return err
	}
	if kro {
		return playKro(ctx, dir)
	}
	if err := play(ctx, dir); err != nil || !keep {
		return err
	}
	fmt.Println("\nA playground for you, with Kausality as its chart installs it:")
	return stay(ctx, dir)
}

// end the playground that runs in a directory.
func end(ctx context.Context, dir string) error {
	err := controlplane.End(ctx, dir)
	if errors.Is(err, controlplane.ErrNotRunning) {
		fmt.Println("No playground is running in " + dir + ".")
		return nil
	}
	if err == nil {
		fmt.Println("The playground has stopped.")
	}
	return err
}

// play the story.
func play(ctx context.Context, dir string) error {
	began := time.Now()
	e, err := story.Start(ctx, story.Options{Dir: dir, Out: os.Stdout, Webhook: true, Function: true, Slack: true})
	defer e.Stop()
	if err != nil {
		return err
	}
	return playAll(ctx, e, story.Chapters, began)
}

// playKro plays the story of a graph of kro.
func playKro(ctx context.Context, dir string) error {
	began := time.Now()
	e, err := graphs.Start(ctx, graphs.Options{Dir: dir, Out: os.Stdout})
	defer e.Stop()
	if err != nil {
		return err
	}
	return playAll(ctx, nil, e.Chapters(), began)
}

// playAll plays chapters, and reports whether all of it went as it should.
func playAll(ctx context.Context, e *story.Env, chapters []story.Chapter, began time.Time) error {
	t := &story.Teller{Out: os.Stdout, Color: term.IsTerminal(int(os.Stdout.Fd()))}
	if err := story.Play(ctx, e, t, chapters); err != nil {
		return fmt.Errorf("%w; run it again with DIR=… to keep the logs", err)
	}
	fmt.Printf("\nEverything went as it should, in %.0fs.\n", time.Since(began).Seconds())
	return nil
}

// stay until the user ends the playground.
func stay(ctx context.Context, dir string) error {
	p, err := playground.Start(ctx, dir, os.Stdout)
	defer p.Stop()
	if err != nil {
		return err
	}
	if err := p.Waits(ctx); err != nil {
		return err
	}
	fmt.Print(p.Page())
	<-ctx.Done()
	return nil
}

// announce what a cold start costs, before it is spent.
func announce(needed []string) error {
	missing, err := parts.Missing("", needed...)
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
