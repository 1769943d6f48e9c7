package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/kausality-io/function-kausality/test/provider/external"
)

// settings are the flags of provider run.
type settings struct {
	kubeconfig          string
	cloudURL            string
	pollInterval        time.Duration
	maxReconcileRate    int
	creationGracePeriod time.Duration
	maxRequeueDelay     time.Duration
	metricsAddress      string
	healthAddress       string
	async               bool
	asyncConditions     string
	asyncTimeout        time.Duration
	tagsFirst           bool
	falsify             string
	debug               bool
}

// Values of --async-conditions.
const (
	asyncAll  = "all"
	asyncLast = "last"
)

// runCommand runs the provider.
func runCommand(stderr io.Writer) command {
	s := &settings{}
	return command{
		flags: s.flags,
		check: s.check,
		run:   func(ctx context.Context) error { return run(ctx, *s, stderr) },
	}
}

func (s *settings) flags(fs *flag.FlagSet) {
	fs.StringVar(&s.kubeconfig, "kubeconfig", "", "file with the connection to the API server; required")
	fs.StringVar(&s.cloudURL, "cloud-url", "", "URL of the cloud; required")
	fs.DurationVar(&s.pollInterval, "poll-interval", time.Minute, "how often a resource is observed that nothing happens to")
	fs.IntVar(&s.maxReconcileRate, "max-reconcile-rate", 10, "reconciles per second")
	fs.DurationVar(&s.creationGracePeriod, "creation-grace-period", 30*time.Second, "how long a resource just created may seem not to exist")
	fs.DurationVar(&s.maxRequeueDelay, "max-requeue-delay", time.Minute, "longest pause between attempts that fail or wait")
	fs.StringVar(&s.metricsAddress, "metrics-bind-address", "0", "address of the metrics; 0 for none")
	fs.StringVar(&s.healthAddress, "health-probe-bind-address", "0", "address of /healthz and /readyz; 0 for none")
	fs.BoolVar(&s.async, "async", false, "work asynchronously, as providers built with upjet do")
	fs.StringVar(&s.asyncConditions, "async-conditions", asyncAll,
		"conditions on asynchronous operations: all, or last for LastAsyncOperation alone (upjet's providers for AWS, GCP and Azure)")
	fs.DurationVar(&s.asyncTimeout, "async-timeout", external.DefaultTimeout, "how long an asynchronous operation may take")
	fs.BoolVar(&s.tagsFirst, "tags-first", false, "tag a new resource before naming it, as many providers built with upjet do")
	fs.StringVar(&s.falsify, "falsify", "", "NAMESPACE=HOW, comma-separated: false statuses in a Namespace, which are ahead, stale or flapping")
	fs.BoolVar(&s.debug, "debug", false, "log what the reconciler does")
}

// check the flags. An error has one line.
func (s *settings) check() error {
	if err := checkKubeconfig(s.kubeconfig); err != nil {
		return err
	}
	u, err := url.Parse(s.cloudURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--cloud-url is required and must be like http://127.0.0.1:9000, not %q", s.cloudURL)
	}
	if s.asyncConditions != asyncAll && s.asyncConditions != asyncLast {
		return fmt.Errorf("--async-conditions must be %s or %s, not %q", asyncAll, asyncLast, s.asyncConditions)
	}
	if _, err := parseFalsifications(s.falsify); err != nil {
		return err
	}
	if s.maxReconcileRate < 1 {
		return errors.New("--max-reconcile-rate must be at least 1")
	}
	if s.pollInterval <= 0 || s.maxRequeueDelay <= 0 || s.asyncTimeout <= 0 || s.creationGracePeriod < 0 {
		return errors.New("durations must be positive")
	}
	return nil
}

func checkKubeconfig(path string) error {
	if path == "" {
		return errors.New("--kubeconfig is required")
	}
	if f, err := os.Stat(path); err != nil || f.IsDir() {
		return fmt.Errorf("cannot read --kubeconfig %s: no such file", path)
	}
	return nil
}
