// Package builds identifies the build of the controller that makes a request (KR-06-21): by the images of the
// calling Pod and, for writes of Crossplane, by the revisions of the Composition and its functions. What is
// read is cached; it writes nothing. What a new build allows is decided in package admission/allowance.
package builds
