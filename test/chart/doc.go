// Package chart lints the Helm chart and renders it over a matrix of values. It
// boots nothing: test/operations shows that the manifests can be applied and run.
package chart
