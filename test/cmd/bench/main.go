// Command bench measures what Kausality's webhook adds to a request, against
// the same request with no webhook, with one that does nothing, and with one
// that returns a patch of the same size. All four are measured in turn in one
// run, since the machines are noisy; what counts are the differences.
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
	serve := flag.String("serve", "", "internal: serve the webhook to compare with, noop or patch")
	address := flag.String("address", "", "internal: HOST:PORT to serve on")
	certs := flag.String("certs", "", "internal: directory with tls.crt and tls.key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *serve != "" {
		err = peer(ctx, *serve, *address, *certs)
	} else {
		err = measure(ctx, *rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		os.Exit(1)
	}
}
