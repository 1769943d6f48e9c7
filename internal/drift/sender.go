package drift

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/outbound"
)

// Endpoints to post DriftReports to.
type Endpoints struct {
	// URLs, HTTPS, each with options as in URL,token-file=PATH: see outbound.Options. Without any, Drifts are recorded and nothing is sent.
	URLs []string
	// CAFile holds the PEM certificates to trust where a URL has no ca-file; the system's if empty.
	CAFile string
	// Timeout of one attempt; 5 s if 0.
	Timeout time.Duration
}

// Check every URL with its options: whether reports can be sent to it.
func (e Endpoints) Check() error {
	if _, err := (outbound.Options{CAFile: e.CAFile}).TLS(); err != nil {
		return fmt.Errorf("--drift-webhook-ca-file: %w", err)
	}
	for i, u := range e.URLs {
		if _, _, err := e.parse(u); err != nil {
			return fmt.Errorf("--drift-webhook-url, number %d: %w", i+1, err)
		}
	}
	return nil
}

// parse URL[,OPTION=VALUE…]. A comma in the URL is written as %2C. The URL may be a secret, and is in no error.
func (e Endpoints) parse(text string) (string, outbound.Options, error) {
	parts := strings.Split(text, ",")
	o := outbound.Options{CAFile: e.CAFile}
	p, err := url.Parse(parts[0])
	if err != nil || p.Scheme != "https" || p.Host == "" {
		return "", o, errors.New("it must be an https URL, as in https://HOST:PORT/PATH, with options after it as in ,token-file=PATH")
	}
	for _, option := range parts[1:] {
		name, value, _ := strings.Cut(option, "=")
		if value == "" || !o.Set(name, value) {
			return "", o, fmt.Errorf("option %q is unknown or has no value; a comma in the URL is written as %%2C", name)
		}
	}
	return parts[0], o, o.Check() //nolint:wrapcheck // It names the option.
}

const (
	// defaultTimeout of one attempt. Attempts are repeated: one that hangs must end.
	defaultTimeout = 5 * time.Second
	// maxAnswer is how much of a receiver's answer is read, in bytes, so that its connection can be
	// used again.
	maxAnswer = 64 << 10
	// maxQuote of an answer in an error, in bytes.
	maxQuote = 128
)

// Sender posts DriftReports to one receiver.
type Sender struct {
	// Name of the receiver: its host, and a hash of the URL.
	Name    string
	url     string
	client  *http.Client
	options outbound.Options
}

// refusedError is the answer of a receiver that does not accept a report, but may accept others.
type refusedError struct{ status string }

func (e *refusedError) Error() string { return "it answered " + e.status }

// NewSenders returns a Sender for each URL of the endpoints. It fails on a URL that is not HTTPS, an unknown option, or a file without a certificate.
func NewSenders(e Endpoints) ([]*Sender, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	timeout := e.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	var out []*Sender
	for _, text := range e.URLs {
		u, options, err := e.parse(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(s *Sender) bool { return s.url == u }) {
			continue
		}
		client, err := options.Client(timeout)
		if err != nil {
			return nil, fmt.Errorf("--drift-webhook-url: %w", err)
		}
		out = append(out, &Sender{Name: nameOf(u), url: u, client: client, options: options})
	}
	return out, nil
}

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

// Answer of a receiver.
type Answer struct {
	// Code and Status of HTTP.
	Code   int
	Status string
	// Body is its beginning.
	Body string
}

// Send a report once. An answer other than 2xx is an error; one of a receiver that refuses this report, a refusedError.
// The error does not have the URL.
func (s *Sender) Send(ctx context.Context, r v1alpha1.DriftReport) error {
	a, err := s.Post(ctx, r)
	switch {
	case err != nil:
		return err
	case a.Code/100 == 2:
		return nil
	case a.Code/100 == 4 && a.Code != http.StatusRequestTimeout && a.Code != http.StatusTooManyRequests:
		return &refusedError{status: a.Status}
	}
	return errors.New("it answered " + a.Status)
}

// Post a report once, whatever the answer is. The error does not have the URL.
func (s *Sender) Post(ctx context.Context, r v1alpha1.DriftReport) (Answer, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return Answer{}, fmt.Errorf("cannot encode report: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(raw))
	if err != nil {
		return Answer{}, errors.New("the URL is invalid")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", r.Spec.ReportID)
	if err := s.options.Sign(req, r.Spec.ReportID, raw, clock.Now()); err != nil {
		return Answer{}, err //nolint:wrapcheck // It names the file.
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return Answer{}, s.why(err)
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Answer{}, s.why(err)
	}
	return Answer{Code: resp.StatusCode, Status: resp.Status, Body: annotation.Cut(strings.ToValidUTF8(string(body), ""), maxQuote)}, nil
}

// why returns the reason of a failed attempt, without the URL.
func (s *Sender) why(err error) error {
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() && s.client.Timeout > 0 {
		return fmt.Errorf("it did not answer within %s", s.client.Timeout)
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	return err
}

// MarkedReport returns what kausality notify test sends: it is marked, and about no drift.
func MarkedReport(cluster string, now time.Time) v1alpha1.DriftReport {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	example := v1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: metav1.NamespaceDefault, Name: "example"}
	out := v1alpha1.DriftReport{Spec: v1alpha1.DriftReportSpec{
		ID: "0000000000000000", ReportID: "test-" + strings.ToLower(at.Format("20060102T150405Z")), Test: true, Phase: v1alpha1.DriftDetected,
		Relation: v1alpha1.RelationControllerChild, Cluster: cluster, Title: "Test: kausality notify test sent this report; it is about no drift.",
		Drift:  v1alpha1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Drift", Namespace: metav1.NamespaceDefault, Name: "0000000000000000"},
		Parent: v1alpha1.ReportParent{ObjectReference: example}, Child: v1alpha1.ReportChild{ObjectReference: example}, Since: &at, LastSeen: &at, Count: 1,
	}}
	out.APIVersion, out.Kind = v1alpha1.GroupVersion.String(), "DriftReport"
	return out
}
