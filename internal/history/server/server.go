package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"

	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/query"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

// Limits of requests.
const (
	// MaxBody of a batch, in bytes.
	MaxBody = 16 << 20
	// requestTimeout bounds the work for one request.
	requestTimeout = 15 * time.Second
	// retryAfter is when a sender may repeat a batch that was not stored, in seconds.
	retryAfter = 10
	// inFlight bounds the requests that are worked on at a time.
	inFlight = 32
)

// Reasons of problems.
const (
	reasonBadRequest   = "BadRequest"
	reasonUnauthorized = "Unauthorized"
	reasonForbidden    = "Forbidden"
	reasonNotFound     = "NotFound"
	reasonTooLarge     = "TooLarge"
	reasonMediaType    = "UnsupportedMediaType"
	reasonUnavailable  = "Unavailable"
)

var (
	duration = telemetry.NewHistogram("kausality_history_request_seconds")
	failures = telemetry.NewCounter("kausality_history_failures_total")
)

// Store is what the server needs of one.
type Store interface {
	Insert(ctx context.Context, sender string, batch []history.Delivery) (query.Receipt, error)
	Page(ctx context.Context, r query.Request) ([]history.Found, error)
	Graph(ctx context.Context, id string) ([]history.Found, bool, error)
}

// Server of a store.
type Server struct {
	store  Store
	access *Access
	log    logr.Logger
	// busy has an item for each request that is worked on.
	busy chan struct{}
}

// New server of a store.
func New(store Store, access *Access, log logr.Logger) *Server {
	return &Server{store: store, access: access, log: log, busy: make(chan struct{}, inFlight)}
}

// Handler returns the handler of all requests. It is safe for concurrent use.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/records", s.operation("store", s.ingest))
	mux.Handle("GET /v1/records", s.operation("query", s.query))
	mux.Handle("GET /v1/graph/{id}", s.operation("graph", s.graph))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, query.Problem{Reason: reasonNotFound, Message: "there are /v1/records and /v1/graph/ID"})
	})
	return mux
}

// operation returns an http.Handler with a bound of time and of concurrent requests; its name is a label of metrics.
func (s *Server) operation(name string, f func(w http.ResponseWriter, r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		start := time.Now()
		defer func() { duration.WithLabelValues(name).Observe(time.Since(start).Seconds()) }()
		select {
		case s.busy <- struct{}{}:
			defer func() { <-s.busy }()
		case <-ctx.Done():
			unavailable(w, "too many requests at a time")
			return
		}
		result, err := f(w, r.WithContext(ctx))
		problem := &problemError{}
		switch {
		case err == nil:
			answer(w, http.StatusOK, result)
		case errors.As(err, &problem):
			answer(w, problem.code, problem.Problem)
		default: // of the store or of the API server: details are for the log alone
			failures.WithLabelValues(name).Inc()
			s.log.Error(err, "cannot answer a request", "operation", name)
			unavailable(w, "the request cannot be answered now; the log of the server has the reason")
		}
	})
}

// problemError is a mistake of the client.
type problemError struct {
	code int
	query.Problem
}

func (e *problemError) Error() string { return e.Message }

func mistake(code int, reason, message string) error {
	return &problemError{code: code, Problem: query.Problem{Reason: reason, Message: message}}
}

// unavailable: the request is to be repeated.
func unavailable(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	answer(w, http.StatusServiceUnavailable, query.Problem{Reason: reasonUnavailable, Message: message})
}

// answer a request. A client that is gone gets nothing.
func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
