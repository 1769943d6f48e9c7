// Package examples renders the folders of examples/ with the real crossplane
// render, our function, function-patch-and-transform and function-auto-ready, and
// compares with the output each folder holds.
package examples
