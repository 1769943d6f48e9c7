package conformance

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestInvalidReports: a report that is not valid by the schema fails the scenario that it is about, and no other
// (KR-10-17).
func TestInvalidReports(t *testing.T) {
	r, err := newReceiver()
	if err != nil {
		t.Fatal(err)
	}
	const report = `{"kind":"DriftReport","apiVersion":"kausality.io/v1alpha1","spec":{"child":{"kind":"Part","name":"one","namespace":"scenario-a1b2c3"}}}`
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(report)))
	if answer.Code != http.StatusOK || len(r.all()) != 1 {
		t.Fatalf("the report was not received: %d %s", answer.Code, answer.Body)
	}
	if err := r.Invalid(); err == nil || !strings.Contains(err.Error(), report) {
		t.Errorf("want an error with the report, got %v", err)
	}
	if err := r.invalidIn("scenario-a1b2c3"); err == nil {
		t.Error("the report is not one of its scenario")
	}
	if err := r.invalidIn("scenario-ffffff"); err != nil {
		t.Errorf("the report fails another scenario: %v", err)
	}
}
