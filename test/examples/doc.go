// Package examples renders the folders of examples/ with the real crossplane
// render, our function and the stand-in for function-patch-and-transform, and
// compares with the output each folder holds.
package examples
