// Package chart lints the Helm chart and renders it over a matrix of values. It
// boots nothing: that what is rendered can be applied and runs is shown in
// package install.
package chart
