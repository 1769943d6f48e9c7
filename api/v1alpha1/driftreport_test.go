package v1alpha1

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/hack/schema"
)

var update = flag.Bool("update", false, "write the schema of DriftReports")

// TestDriftReportSchema covers KR-10-17: the schema is that of the type, and a report with every field is valid by it.
func TestDriftReportSchema(t *testing.T) {
	// What receivers may check reports with.
	stored := schema.Check[DriftReport](t, filepath.Join("..", "..", "docs", "driftreport.schema.json"), *update)

	assert.Empty(t, schema.Invalid(t, stored, schema.Filled[DriftReport]()))
	assert.Empty(t, schema.Invalid(t, stored, DriftReport{TypeMeta: metav1.TypeMeta{APIVersion: "kausality.io/v1alpha1", Kind: "DriftReport"}}))
	assert.NotEmpty(t, schema.Invalid(t, stored, map[string]any{"apiVersion": "v1", "kind": "DriftReport", "spec": map[string]any{}}), "the id is missing")
	assert.NotEmpty(t, schema.Invalid(t, stored, map[string]any{"unknown": 1}))
}
