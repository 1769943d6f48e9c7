// Command bench measures what Kausality's webhook adds to a request, against
// the same request with no webhook, with one that does nothing, and with one
// that returns a patch of the same size. All four are measured in turn in one
// run, since the machines are noisy; what counts are the differences.
//
// With --gate it measures the gate controller instead: its memory with many
// managed resources, its writes, and how fast it closes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	rounds := flag.Int("rounds", 1500, "requests of each kind")
	gate := flag.Bool("gate", false, "measure the gate controller")
	size := fleetSize{}
	flag.IntVar(&size.objects, "objects", 10_000, "with --gate: managed resources")
	flag.IntVar(&size.kinds, "kinds", 50, "with --gate: kinds of them")
	flag.IntVar(&size.rate, "rate", 25, "with --gate: confirmations a second")
	flag.IntVar(&size.closings, "closings", 1000, "with --gate: gates to close at that rate, and as many as fast as it goes")
	serve := flag.String("serve", "", "internal: serve the webhook to compare with, noop or patch")
	address := flag.String("address", "", "internal: HOST:PORT to serve on")
	certs := flag.String("certs", "", "internal: directory with tls.crt and tls.key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *serve != "":
		err = peer(ctx, *serve, *address, *certs)
	case *gate:
		err = measureGate(ctx, size)
	default:
		err = measure(ctx, *rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		os.Exit(1)
	}
}
