package slack

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
)

const (
	// RequestPath is where Slack sends interactions: the Request URL of the app ends with it.
	RequestPath = "/slack/interactivity"
	// signedFor is how long a signature counts, before and after its time.
	signedFor = 5 * time.Minute
	// maxBody bounds the body of a request, in bytes. What Slack sends has the message with its blocks, at most some 100 KiB.
	maxBody = 512 << 10
	// readTimeout is the time in which a request is read, with its body. Slack waits 3 s for the answer.
	readTimeout = 3 * time.Second
	// maxConnections and maxSeen bound what clients may take: connections, and requests that are remembered.
	maxConnections = 64
	maxSeen        = 10_000
	// stopTimeout is for how long requests in progress may go on in the end.
	stopTimeout = 3 * time.Second
)

// Results of requests, as the metric has them.
const (
	requestTaken     = "taken"
	requestUnsigned  = "unsigned"
	requestStale     = "stale"
	requestReplayed  = "replayed"
	requestMalformed = "malformed"
	requestTooLarge  = "too-large"
	requestFull      = "full"
)

// requests takes interactions that Slack sends by HTTP, on every replica. Each is signed by the app's signing secret, and taken once.
type requests struct {
	*interactions
	// secret signs requests.
	secret string
	seen   seen
	// logged are the requests that are refused, so many a minute of them.
	logged rate.Sometimes
}

// newRequests returns what takes the requests that a secret signs.
func newRequests(taken *interactions, secret string) *requests {
	return &requests{interactions: taken, secret: secret, logged: rate.Sometimes{Interval: time.Minute}}
}

// ServeHTTP takes an interaction. What Slack did not sign is refused before it is parsed.
func (s *requests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		s.refuse(w, requestTooLarge, http.StatusRequestEntityTooLarge, err)
		return
	}
	if err != nil { // the client is slow or gone
		s.refuse(w, requestMalformed, http.StatusBadRequest, err)
		return
	}
	if result, code, err := s.verify(r.Header, raw); err != nil {
		s.refuse(w, result, code, err)
		return
	}
	in, check, err := parseInteraction(raw)
	if err != nil {
		s.refuse(w, requestMalformed, http.StatusBadRequest, err)
		return
	}
	received.WithLabelValues(requestTaken).Inc()
	if check {
		return
	}
	// A client that is gone is Slack, which has waited for 3 s: what it sent is stored all the same, as the user meant it.
	if answer := s.take(context.WithoutCancel(r.Context()), in); answer != nil {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// refuse answers a request that is not taken. The log has why, the client does not.
func (s *requests) refuse(w http.ResponseWriter, result string, code int, err error) {
	received.WithLabelValues(result).Inc()
	s.logged.Do(func() { // any client can send requests
		s.log.Info("a request is refused; kausality_slack_requests_total counts all, of which at most one a minute is logged", "result", result, "error", err.Error())
	})
	http.Error(w, http.StatusText(code), code)
}

// verify checks that Slack signed a request within the last five minutes, and that it is not sent again.
func (s *requests) verify(h http.Header, raw []byte) (result string, code int, _ error) {
	v, err := slack.NewSecretsVerifier(h, s.secret)
	if errors.Is(err, slack.ErrExpiredTimestamp) {
		return requestStale, http.StatusUnauthorized, err
	}
	if err == nil {
		_, _ = v.Write(raw) // never fails: it is a hash
		err = v.Ensure()
	}
	if err != nil {
		// The error of the library contains the signature that would have been right.
		return requestUnsigned, http.StatusUnauthorized, errors.New("it has no signature of this app")
	}
	err = s.seen.add(sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", h.Get("X-Slack-Request-Timestamp"), raw)), s.now())
	switch {
	case errors.Is(err, errReplayed):
		return requestReplayed, http.StatusUnauthorized, err
	case err != nil:
		return requestFull, http.StatusServiceUnavailable, err
	}
	return "", 0, nil
}

// parseInteraction returns the interaction in the body of a request. check is true where Slack only checks the certificate.
func parseInteraction(raw []byte) (in slack.InteractionCallback, check bool, _ error) {
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return in, false, fmt.Errorf("the body is no form: %w", err)
	}
	if form.Get("ssl_check") == "1" {
		return in, true, nil
	}
	if err := json.Unmarshal([]byte(form.Get("payload")), &in); err != nil {
		return in, false, fmt.Errorf("the payload is no interaction: %w", err)
	}
	return in, false, nil
}

var (
	errReplayed = errors.New("a request with this signature was taken before")
	errSeenFull = errors.New("too many requests within ten minutes")
)

// seen has digests of what was signed of the requests that were taken, as long as their signatures count: a signature itself can be written in more
// than one way. The zero value is ready. It is safe for concurrent use.
type seen struct {
	mu sync.Mutex
	at map[[sha256.Size]byte]time.Time
}

// add remembers what was signed. It returns errReplayed where that is known, and errSeenFull where too many are remembered.
func (s *seen) add(signed [sha256.Size]byte, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.at[signed]; known {
		return errReplayed
	}
	if len(s.at) >= maxSeen {
		for k, at := range s.at {
			if now.Sub(at) > 2*signedFor {
				delete(s.at, k)
			}
		}
	}
	if len(s.at) >= maxSeen {
		return errSeenFull
	}
	if s.at == nil {
		s.at = map[[sha256.Size]byte]time.Time{}
	}
	s.at[signed] = now
	return nil
}

// listener serves requests of Slack until the context ends.
type listener struct {
	requests *requests
	address  string
	// tls of the server; nil behind a proxy that ends TLS.
	tls *tls.Config
	// timeout of reading a request.
	timeout time.Duration
}

// NeedLeaderElection is false: Slack sends each request to one of the replicas.
func (*listener) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (l *listener) Start(ctx context.Context) error {
	on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.address)
	if err != nil {
		return fmt.Errorf("--interactivity-bind-address: %w", err)
	}
	return l.serve(ctx, on)
}

// serve serves on a listener, which is closed in the end.
func (l *listener) serve(ctx context.Context, on net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("POST "+RequestPath, l.requests)
	server := &http.Server{Handler: mux, TLSConfig: l.tls, ReadTimeout: l.timeout, WriteTimeout: 2 * readTimeout, IdleTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10}
	on = netutil.LimitListener(on, maxConnections)
	ended := make(chan error, 1)
	go func() {
		if l.tls != nil {
			ended <- server.ServeTLS(on, "", "")
			return
		}
		ended <- server.Serve(on)
	}()
	connected.Set(1)
	defer connected.Set(0)
	select {
	case err := <-ended:
		return fmt.Errorf("cannot serve requests of Slack: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return server.Shutdown(stop)
}
