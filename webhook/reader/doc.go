// Package reader reads the JSON of an AdmissionReview in one pass into the values that
// k8s.io/apimachinery/pkg/util/json would return, and shares between "object" and "oldObject" what is the
// same in both. It knows nothing else of reviews.
package reader
