// Package onepass reads the JSON of Kubernetes in one pass: an AdmissionReview, sharing between "object" and
// "oldObject" what is the same in both, and what a dynamic client receives, the events of watches above all. It
// knows nothing else of reviews and objects.
package onepass
