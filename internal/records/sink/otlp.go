package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"
)

// maxAnswer of a collector, in bytes.
const maxAnswer = 64 << 10

// otlp sends records as logs. Of OpenTelemetry's SDK it uses the exporter without a queue: the spool is the queue.
type otlp struct {
	exporter *otlploghttp.Exporter
	provider *sdklog.LoggerProvider
	logger   log.Logger
	collect  *collector
	answer   *answer
}

func newOTLP(c Config) (*otlp, error) {
	client, err := c.Client(attemptTimeout)
	if err != nil {
		return nil, err
	}
	s := &otlp{collect: &collector{}, answer: &answer{RoundTripper: client.Transport}}
	client.Transport = s.answer
	u := *c.URL
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/logs"
	}
	s.exporter, err = otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(u.String()), otlploghttp.WithHTTPClient(client),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: false}), otlploghttp.WithCompression(otlploghttp.GzipCompression))
	if err != nil {
		return nil, fmt.Errorf("cannot make the exporter: %w", withoutURL(err))
	}
	s.provider = sdklog.NewLoggerProvider(sdklog.WithProcessor(s.collect), sdklog.WithAttributeCountLimit(-1),
		sdklog.WithResource(resource.NewSchemaless(attribute.String("service.name", "kausality"))))
	s.logger = s.provider.Logger("github.com/kausality-io/function-kausality/internal/records")
	return s, nil
}

// Send sends a batch in one request.
func (s *otlp) Send(ctx context.Context, messages []Message) error {
	s.collect.records = s.collect.records[:0]
	for _, m := range messages {
		s.logger.Emit(ctx, logOf(m))
	}
	s.answer.reset()
	err := s.exporter.Export(ctx, s.collect.records)
	switch rejected := s.answer.rejected(); {
	case refuses(s.answer.status):
		return &RefusedError{fmt.Errorf("status %d", s.answer.status)}
	case rejected != nil:
		return &RefusedError{rejected}
	case err != nil && s.answer.status != 0: // the exporter's error has the URL
		return fmt.Errorf("cannot send records: status %d", s.answer.status)
	case err != nil:
		return fmt.Errorf("cannot send records: %w", withoutURL(err))
	}
	return nil
}

// Close closes the connections. Nothing waits to be sent.
func (s *otlp) Close() error {
	return errors.Join(s.provider.Shutdown(context.Background()), s.exporter.Shutdown(context.Background()))
}

// logOf returns the log of a record: an event, whose attributes have what is searched for, and whose body is the record.
func logOf(m Message) log.Record {
	r := m.Record
	out := log.Record{}
	out.SetEventName(EventTypePrefix + string(r.Type))
	out.SetTimestamp(r.Time.Time)
	out.SetObservedTimestamp(r.Time.Time)
	out.SetSeverity(log.SeverityInfo)
	out.SetBody(log.StringValue(string(m.Raw)))
	add := func(key, value string) {
		if value != "" {
			out.AddAttributes(log.String(key, value))
		}
	}
	add("kausality.record.id", r.ID)
	add("kausality.record.type", string(r.Type))
	add("kausality.reason", r.Reason)
	add("kausality.external", r.External)
	add("k8s.cluster.name", r.Cluster.Name)
	add("k8s.cluster.uid", string(r.Cluster.UID))
	add("k8s.namespace.name", r.Object.Namespace)
	add("k8s.object.api_version", r.Object.APIVersion)
	add("k8s.object.kind", r.Object.Kind)
	add("k8s.object.name", r.Object.Name)
	add("k8s.object.uid", string(r.Object.UID))
	if r.Actor != nil {
		add("user.name", r.Actor.User)
	}
	return out
}

// collector is a processor that keeps records until they are exported.
type collector struct{ records []sdklog.Record }

// Enabled is true: all records are kept.
func (*collector) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit keeps a record.
func (c *collector) OnEmit(_ context.Context, r *sdklog.Record) error {
	c.records = append(c.records, r.Clone())
	return nil
}

// Shutdown does nothing.
func (*collector) Shutdown(context.Context) error { return nil }

// ForceFlush does nothing.
func (*collector) ForceFlush(context.Context) error { return nil }

// answer of the collector to the last request. The exporter's error has status and rejections only as text.
type answer struct {
	http.RoundTripper
	status int
	body   []byte
}

func (a *answer) reset() { a.status, a.body = 0, nil }

// RoundTrip keeps what the collector answers.
func (a *answer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if failed := errors.Join(err, resp.Body.Close()); failed != nil {
		return nil, failed
	}
	a.status, a.body = resp.StatusCode, body
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// rejected is why the collector rejects some of the records that it has been sent; nil for none. Those that it accepted are sent again with
// a half of the batch, and the receiver drops them by their id.
func (a *answer) rejected() error {
	var resp collogspb.ExportLogsServiceResponse
	if a.status < 200 || a.status > 299 {
		return nil
	}
	if err := proto.Unmarshal(a.body, &resp); err != nil {
		return nil //nolint:nilerr // An answer in another format rejects nothing.
	}
	if n := resp.GetPartialSuccess().GetRejectedLogRecords(); n > 0 {
		return fmt.Errorf("%d records rejected: %s", n, resp.GetPartialSuccess().GetErrorMessage())
	}
	return nil
}

// withoutURL is an error without the URL that it happened with, which may be a secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
