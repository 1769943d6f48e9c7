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
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Endpoints to post DriftReports to.
type Endpoints struct {
	// URLs, HTTPS.
	URLs []string
	// CAFile holds the PEM certificates to trust; the system's where empty.
	CAFile string
	// Timeout of one attempt; 5 s where 0.
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
	sendQueue      = 256
	defaultTimeout = 5 * time.Second
)

// backoff of one report to one endpoint: 8 attempts over about 4 minutes.
var backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 8}

// Sender posts DriftReports, each endpoint in its own pace.
type Sender struct {
	client *http.Client
	log    logr.Logger
	queues []chan delivery
	urls   []string
}

type delivery struct {
	report v1alpha1.DriftReport
	done   func(error)
}

// NewSender for endpoints; it fails on a URL that is not HTTPS or a CA file
// that holds no certificate.
func NewSender(e Endpoints, log logr.Logger) (*Sender, error) {
	s := &Sender{log: log}
	pool, err := roots(e.CAFile)
	if err != nil {
		return nil, err
	}
	if err := e.Check(); err != nil {
		return nil, err
	}
	for _, u := range e.URLs {
		s.urls = append(s.urls, u)
		s.queues = append(s.queues, make(chan delivery, sendQueue))
	}
	timeout := e.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	s.client = &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}}
	return s, nil
}

func roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // nil means the system's roots.
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

// Send a report to every endpoint. done is called once for each, with nil when
// it was taken; at once where there is no endpoint. A full queue is an error.
func (s *Sender) Send(r v1alpha1.DriftReport, done func(error)) {
	if len(s.queues) == 0 {
		done(nil)
		return
	}
	for i, q := range s.queues {
		select {
		case q <- delivery{report: r, done: done}:
		default:
			done(fmt.Errorf("queue for %s is full", s.urls[i]))
		}
	}
}

// Run the deliveries until the context ends.
func (s *Sender) Run(ctx context.Context) {
	for i := range s.queues {
		go s.run(ctx, s.urls[i], s.queues[i])
	}
	<-ctx.Done()
}

func (s *Sender) run(ctx context.Context, to string, q <-chan delivery) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-q:
			var last error
			err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
				last = s.post(ctx, to, d.report)
				return last == nil, nil
			})
			if err != nil {
				s.log.Error(last, "cannot deliver drift report", "url", to, "id", d.report.Spec.ID, "phase", d.report.Spec.Phase)
				d.done(last)
				continue
			}
			d.done(nil)
		}
	}
}

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
	defer resp.Body.Close() //nolint:errcheck // Nothing is left to lose.
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return nil
}
