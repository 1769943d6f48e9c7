package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/query"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

// Content types of CloudEvents 1.0 in JSON.
const (
	contentBatch = "application/cloudevents-batch+json"
	contentOne   = "application/cloudevents+json"
)

var received = telemetry.NewCounter("kausality_history_records_total")

// event is what is read of a CloudEvent.
type event struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Data        json.RawMessage `json:"data"`
}

// ingest a batch. The answer is 200 with a receipt once the records are durable, also where it refuses some for good; 503 where the
// sender is to repeat the batch (KR-16-43).
func (s *Server) ingest(w http.ResponseWriter, r *http.Request) (any, error) {
	sender, err := s.access.sender(r)
	if err != nil {
		return nil, err
	}
	batch, err := deliveries(w, r)
	if err != nil {
		return nil, err
	}
	receipt, err := s.store.Insert(r.Context(), sender, batch)
	if err != nil {
		return nil, err
	}
	Count(receipt)
	if len(receipt.Refused) > 0 {
		s.log.Info("records refused", "sender", sender, "count", len(receipt.Refused), "id", receipt.Refused[0].ID,
			"reason", receipt.Refused[0].Reason, "message", receipt.Refused[0].Message)
	}
	return receipt, nil
}

// Count what became of a batch.
func Count(r query.Receipt) {
	for result, n := range map[string]int{"stored": r.Stored, "known": r.Known, "kept": r.Kept, "refused": len(r.Refused)} {
		received.WithLabelValues(result).Add(float64(n))
	}
}

// deliveries returns the deliveries of a request.
func deliveries(w http.ResponseWriter, r *http.Request) ([]history.Delivery, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != contentBatch && media != contentOne {
		return nil, mistake(http.StatusUnsupportedMediaType, reasonMediaType, "Content-Type must be "+contentBatch+" or "+contentOne)
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxBody))
	var events []event
	if media == contentOne {
		events = make([]event, 1)
		err = body.Decode(&events[0])
	} else {
		err = body.Decode(&events)
	}
	large := &http.MaxBytesError{}
	switch {
	case errors.As(err, &large):
		return nil, mistake(http.StatusRequestEntityTooLarge, reasonTooLarge, fmt.Sprintf("a batch has at most %d bytes", MaxBody))
	case err != nil:
		return nil, mistake(http.StatusBadRequest, reasonBadRequest, "the body is no batch of CloudEvents in JSON")
	case len(events) > history.MaxBatch:
		return nil, mistake(http.StatusRequestEntityTooLarge, reasonTooLarge, fmt.Sprintf("a batch has at most %d events", history.MaxBatch))
	}
	out := make([]history.Delivery, 0, len(events))
	for n, e := range events {
		if e.SpecVersion != "1.0" {
			return nil, mistake(http.StatusBadRequest, reasonBadRequest, fmt.Sprintf("event %d: specversion must be 1.0", n))
		}
		out = append(out, history.Delivery{Raw: e.Data, ID: e.ID})
	}
	return out, nil
}
