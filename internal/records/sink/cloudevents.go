package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// Attributes of the CloudEvents that records are.
const (
	// EventTypePrefix comes before the record's type.
	EventTypePrefix = "io.kausality.record." + recordsv1alpha1.Schema + "."
	// EventSourcePrefix comes before the UID of the cluster.
	EventSourcePrefix = "/kausality/"
	// ContentTypeBatch of a request.
	ContentTypeBatch = "application/cloudevents-batch+json"
)

// An Event is a record as a CloudEvent of version 1.0, in its JSON format.
type Event struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data"`
}

// eventOf returns the event of a message.
func eventOf(m Message) Event {
	r := m.Record
	return Event{
		SpecVersion: "1.0", ID: r.ID, Source: EventSourcePrefix + string(r.Cluster.UID), Type: EventTypePrefix + string(r.Type),
		Subject: subjectOf(r.Object), Time: timeOf(r), DataContentType: "application/json", Data: m.Raw,
	}
}

// subjectOf returns the subject of an object: apiVersion, kind, namespace if it has one, and name.
func subjectOf(o recordsv1alpha1.Object) string {
	parts := []string{o.APIVersion, o.Kind, o.Namespace, o.Name}
	if o.Namespace == "" {
		parts = []string{o.APIVersion, o.Kind, o.Name}
	}
	return strings.Join(parts, "/")
}

// timeOf returns the time of a record as it is encoded.
func timeOf(r recordsv1alpha1.Record) string {
	return r.Time.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

// cloudEvents posts batches. The SDK of CloudEvents sends no batches, and an event is a struct of eight fields.
type cloudEvents struct {
	url    string
	client *http.Client
}

// Send sends a batch in one request.
func (s *cloudEvents) Send(ctx context.Context, messages []Message) error {
	body, err := json.Marshal(lists.Map(messages, eventOf))
	if err != nil {
		return &RefusedError{fmt.Errorf("cannot encode events: %w", err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot send records: %w", withoutURL(err))
	}
	req.Header.Set("Content-Type", ContentTypeBatch)
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("cannot send records: %w", withoutURL(err))
	}
	defer resp.Body.Close()                               //nolint:errcheck // Only its status matters.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // the reason, where there is one
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		return nil
	case refuses(resp.StatusCode):
		return &RefusedError{fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))}
	}
	return fmt.Errorf("cannot send records: %s: %s", resp.Status, strings.TrimSpace(string(text)))
}

// Close closes idle connections.
func (s *cloudEvents) Close() error {
	s.client.CloseIdleConnections()
	return nil
}
