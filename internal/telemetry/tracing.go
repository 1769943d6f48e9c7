package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracing to an OpenTelemetry collector. The zero value is off.
type Tracing struct {
	// Endpoint as in http://collector:4318, OTLP over HTTP; "" is off.
	Endpoint string
	// Ratio of the requests without an incoming trace that are traced, 0 to 1.
	Ratio float64
}

// Check the endpoint and the ratio. The error names the flag.
func (t Tracing) Check() error {
	if t.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--otlp-endpoint: %q must be a URL, as in http://HOST:4318", t.Endpoint)
	}
	if t.Ratio < 0 || t.Ratio > 1 {
		return fmt.Errorf("--trace-ratio must be between 0 and 1, not %v", t.Ratio)
	}
	return nil
}

// flushTimeout bounds sending the last spans when the process ends.
const flushTimeout = 3 * time.Second

// Start tracing for a component; stop sends the last spans. If the collector is down, spans are lost and
// nothing else: they are sent in the background, and a full queue drops them.
func (t Tracing) Start(ctx context.Context, component string) (stop func(), err error) {
	if t.Endpoint == "" {
		return func() {}, nil
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(t.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("cannot trace to %s: %w", t.Endpoint, err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(t.Ratio))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "kausality-"+component))),
	)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		_ = provider.Shutdown(ctx) // spans that cannot be sent are lost
	}, nil
}

// Span of work, which End ends. It costs next to nothing while tracing is off.
func Span(ctx context.Context, name string) (context.Context, trace.Span) {
	return otel.Tracer("kausality").Start(ctx, name)
}

// End a span with an error, or with attributes given as key and value.
func End(s trace.Span, err error, attributes ...string) {
	if s.IsRecording() {
		for i := 0; i+1 < len(attributes); i += 2 {
			s.SetAttributes(attribute.String("kausality."+attributes[i], attributes[i+1]))
		}
		if err != nil {
			s.RecordError(err)
			s.SetStatus(codes.Error, err.Error())
		}
	}
	s.End()
}

// Incoming continues the trace of the client, as the API server.
func Incoming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := otel.GetTextMapPropagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
