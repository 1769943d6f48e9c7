// Package onepass reads the JSON of Kubernetes in one pass: an AdmissionReview, sharing between "object" and
// "oldObject" what is the same in both, and what a dynamic client receives, the events of watches above all. Of
// the objects of events it leaves out the inner names of managedFields, and knows nothing else of reviews and objects.
package onepass
