package telemetry

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// TestTracingOff: nothing is recorded where no endpoint is given.
func TestTracingOff(t *testing.T) {
	stop, err := Tracing{}.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, span := Span(t.Context(), "work")
	if span.IsRecording() {
		t.Error("a span is recorded")
	}
	End(span, errors.New("boom"), "reason", "none")
}

// TestTracing: a span goes to the collector with its attributes, as part of the
// caller's trace.
func TestTracing(t *testing.T) {
	var got atomic.Pointer[string]
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body) // an empty one fails below
		text := r.URL.Path + " " + string(raw)
		got.Store(&text)
	}))
	defer collector.Close()
	stop, err := Tracing{Endpoint: collector.URL, Ratio: 0}.Start(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	var continued string
	h := Incoming(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, span := Span(r.Context(), "admission")
		continued = trace.SpanContextFromContext(r.Context()).TraceID().String()
		End(span, errors.New("boom"), "reason", "Drift")
	}))
	r := httptest.NewRequest(http.MethodPost, "/mutate", nil)
	r.Header.Set("Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	h.ServeHTTP(httptest.NewRecorder(), r)
	stop()
	if continued != id {
		t.Errorf("want the trace of the caller, got %s", continued)
	}
	text := got.Load()
	if text == nil {
		t.Fatal("the collector got nothing")
	}
	for _, want := range []string{"/v1/traces", "admission", "kausality.reason", "Drift", "boom", "kausality-test"} {
		if !strings.Contains(*text, want) {
			t.Errorf("the collector did not get %q", want)
		}
	}
}

func TestTracingCheck(t *testing.T) {
	for _, bad := range []Tracing{{Endpoint: "collector:4318"}, {Endpoint: "ftp://a"}, {Endpoint: "http://a", Ratio: 2}} {
		if err := bad.Check(); err == nil {
			t.Errorf("%+v is let through", bad)
		}
	}
	if err := (Tracing{Endpoint: "http://collector:4318", Ratio: 0.1}).Check(); err != nil {
		t.Error(err)
	}
}
