package drift

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

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
	// defaultTimeout of one attempt. Attempts are repeated: one that hangs must end.
	defaultTimeout = 5 * time.Second
	// maxAnswer is how much of a receiver's answer is read, in bytes, so that its connection can be
	// used again.
	maxAnswer = 64 << 10
)

// Sender posts DriftReports to one receiver.
type Sender struct {
	// Name of the receiver: its host, and a hash of the URL.
	Name   string
	url    string
	client *http.Client
}

// refusedError is an answer of a receiver that does not want a report, while it may want others.
type refusedError struct{ status string }

func (e *refusedError) Error() string { return "it answered " + e.status }

// NewSenders for endpoints, each of which is one once; it fails on a URL that is not HTTPS or a CA file that holds no certificate.
func NewSenders(e Endpoints) ([]*Sender, error) {
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
	client := &http.Client{Timeout: timeout, CheckRedirect: noRedirect, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
	}}
	var out []*Sender
	for _, u := range e.URLs {
		if !slices.ContainsFunc(out, func(s *Sender) bool { return s.url == u }) {
			out = append(out, &Sender{Name: nameOf(u), url: u, client: client})
		}
	}
	return out, nil
}

// noRedirect has a redirection be the answer: another host is not the one that was configured, and a page for signing in
// accepts no report.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Names of senders.
func Names(senders []*Sender) []string {
	out := make([]string, 0, len(senders))
	for _, s := range senders {
		out = append(out, s.Name)
	}
	return out
}

// nameOf a receiver: a URL may have a secret in its path, as those of chat systems do, and names are in objects and metrics.
func nameOf(u string) string {
	host := ""
	if p, err := url.Parse(u); err == nil {
		host = p.Host
	}
	sum := sha256.Sum256([]byte(u))
	return host + "/" + hex.EncodeToString(sum[:4])
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

// Send a report once. An answer other than 2xx is an error; one of a receiver that refuses this report, a refusedError.
// The error does not have the URL.
func (s *Sender) Send(ctx context.Context, r v1alpha1.DriftReport) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("cannot encode report: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(raw))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", r.Spec.ReportID)
	resp, err := s.client.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return err
	}
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code/100 == 4 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests:
		return &refusedError{status: resp.Status}
	}
	return errors.New("it answered " + resp.Status)
}
