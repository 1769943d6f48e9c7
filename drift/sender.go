package drift

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Endpoints to post DriftReports to.
type Endpoints struct {
	// URLs, HTTPS. Without any, Drifts are recorded and nothing is sent.
	URLs []string
	// CAFile holds the PEM certificates to trust; the system's if empty.
	CAFile string
	// Timeout of one attempt; 5 s if 0.
	Timeout time.Duration
}

// Check that every URL is one that reports can be sent to.
func (e Endpoints) Check() error {
	for _, u := range e.URLs {
		p, err := url.Parse(u)
		if err != nil || p.Scheme != "https" || p.Host == "" {
			return fmt.Errorf("--drift-webhook-url: %q must be an https URL, as in https://HOST:PORT/PATH", u)
		}
	}
	return nil
}

const (
	// sendCapacity is the number of reports that wait for one endpoint. A report may hold
	// two objects of maxObject bytes.
	sendCapacity = 256
	// defaultTimeout of one attempt. Attempts are repeated: one that hangs must end.
	defaultTimeout = 5 * time.Second
	// maxAnswer is how much of an endpoint's answer is read, in bytes, so that its connection can be
	// used again.
	maxAnswer = 64 << 10
)

// backoff of one report to one endpoint: 8 attempts within about 3 minutes.
var backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 8}

// Sender posts DriftReports. Each endpoint has a queue of its own, and gets its reports in order: one
// that is slow or down delays no other.
type Sender struct {
	client    *http.Client
	log       logr.Logger
	backoff   wait.Backoff
	endpoints []endpoint
}

// endpoint with the reports that wait for it.
type endpoint struct {
	url   string
	queue *queue[delivery]
}

// delivery of one report to one endpoint. delivered is called once it is accepted, and
// never where it is lost.
type delivery struct {
	report    v1alpha1.DriftReport
	delivered func()
}

// NewSender for endpoints; it fails on a URL that is not HTTPS or a CA file that holds no certificate.
func NewSender(e Endpoints, log logr.Logger) (*Sender, error) {
	pool, err := roots(e.CAFile)
	if err != nil {
		return nil, err
	}
	if err := e.Check(); err != nil {
		return nil, err
	}
	timeout := e.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	s := &Sender{log: log, backoff: backoff, client: &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}}}
	for i, u := range e.URLs {
		q, err := newQueue(fmt.Sprintf("drift-sender-%d", i), sendCapacity, log.WithValues("url", u), func(ctx context.Context, d delivery) error {
			return s.deliver(ctx, u, d)
		})
		if err != nil {
			return nil, err
		}
		s.endpoints = append(s.endpoints, endpoint{url: u, queue: q})
	}
	return s, nil
}

// roots in a PEM file; nil, which means the system's, for no file.
func roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // See above.
	}
	raw, err := os.ReadFile(file) //nolint:gosec // The operator names the file.
	if err != nil {
		return nil, fmt.Errorf("--drift-webhook-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("--drift-webhook-ca-file: %s holds no PEM certificate", file)
	}
	return pool, nil
}

// Send a report to every endpoint. It never blocks: a report that finds the queue of an endpoint full
// is lost to that endpoint, and logged. delivered is called after each endpoint that accepted it, and
// at once if there is no endpoint.
func (s *Sender) Send(r v1alpha1.DriftReport, delivered func()) {
	if len(s.endpoints) == 0 {
		delivered()
		return
	}
	for _, e := range s.endpoints {
		if !e.queue.add(delivery{report: r, delivered: delivered}) {
			s.log.Error(nil, "drift report lost: the queue is full", "url", e.url, "id", r.Spec.ID, "phase", r.Spec.Phase)
		}
	}
}

// run the deliveries until the context ends.
func (s *Sender) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, e := range s.endpoints {
		wg.Go(func() {
			if err := e.queue.Start(ctx); err != nil {
				s.log.Error(err, "cannot send drift reports", "url", e.url)
			}
		})
	}
	wg.Wait()
}

// deliver a report, with retries.
func (s *Sender) deliver(ctx context.Context, to string, d delivery) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, s.backoff, func(ctx context.Context) (bool, error) {
		last = s.post(ctx, to, d.report)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("cannot deliver drift report %s (%s) to %s: %w", d.report.Spec.ID, d.report.Spec.Phase, to, last)
	}
	d.delivered()
	return nil
}

// post a report once. An answer other than 2xx is an error.
func (s *Sender) post(ctx context.Context, to string, r v1alpha1.DriftReport) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("cannot encode report: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return nil
}
