// Command bench measures what Kausality costs:
//
//	bench code       the decision, the webhook's handler and the function, without a
//	                 cluster
//	bench requests   what its webhook adds to a request, against the same request
//	                 with no webhook, with one that does nothing, and with one that
//	                 returns a patch of the same size
//	bench apiserver  what the admission plugin adds to a request, against a plugin that
//	                 does nothing, and the webhook
//	bench memory     what a webhook holds that knows 10,000 parents of 50 kinds
//	bench gate       what the gate controller holds of as many managed resources, its
//	                 writes for each opening and closing, and how fast it closes
//	bench rollout    how fast a Rollout lets as many objects through, and by how many
//	                 writes
//	bench page       how large and how fast the page of kubectl kausality ui is with as
//	                 many pending changes, and what its process holds
//	bench history    how many records a second the store takes, and how fast it answers
//	bench soak       mixed load on two replicas that are restarted in turn
//
// A figure with an aim is printed beside it, and fails if it misses it.
//
// Without a name it runs code, requests, memory and gate. What is compared is measured in
// turn in one run, since the machines are noisy; what counts are the
// differences.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// benchmarks by name.
var benchmarks = map[string]func(context.Context, options) error{
	"code": code, "requests": requests, "memory": memory, "gate": gate, "rollout": rollout, "page": pageBench,
	"history": historyBench, "soak": soak, "apiserver": apiServer,
}

// options of all benchmarks; each uses some.
type options struct {
	rounds, objects, kinds, rate, closings, records int
	duration, every                                 time.Duration
}

func main() {
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 1500, "requests: requests of each kind")
	flag.IntVar(&o.objects, "objects", 10_000, "memory: parents; gate: managed resources; rollout: parents with a child each; page: changes")
	flag.IntVar(&o.kinds, "kinds", 50, "memory, gate: kinds of them")
	flag.IntVar(&o.rate, "rate", 25, "gate: confirmations a second")
	flag.IntVar(&o.closings, "closings", 1000, "gate: gates to close at that rate, as many to open and close, and as many as fast as it goes")
	flag.IntVar(&o.records, "records", 1_000_000, "history: records to store")
	flag.DurationVar(&o.duration, "for", 30*time.Minute, "soak: how long, once the cluster holds all that is kept")
	flag.DurationVar(&o.every, "restart-every", 10*time.Minute, "soak: how long until the next replica is restarted")
	serve := flag.String("serve", "", "internal: serve the webhook to compare with, noop, http2, patch or reads")
	address := flag.String("address", "", "internal: HOST:PORT to serve on")
	certs := flag.String("certs", "", "internal: directory with tls.crt and tls.key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *serve != "":
		err = peer(ctx, *serve, *address, *certs)
	default:
		err = run(ctx, flag.Args(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string, o options) error {
	if len(names) == 0 {
		names = []string{"code", "requests", "memory", "gate"}
	}
	for _, n := range names {
		f, ok := benchmarks[n]
		if !ok {
			return fmt.Errorf("there is no benchmark %q; there are %s", n, strings.Join(slices.Sorted(maps.Keys(benchmarks)), ", "))
		}
		if err := f(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return nil
}
