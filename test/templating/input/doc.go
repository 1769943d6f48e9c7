// Package input is the part of function-patch-and-transform's input that our
// examples use: what a Composition writes under pipeline[].input. It parses
// the input strictly and validates it, so that a field which the stand-in does
// not know ends the pipeline with that field's path instead of being ignored.
//
// Left out on purpose: patchSets, environment, condition, connectionDetails,
// policy.toFieldPath, the match transform and the environment patches. What is
// here has the names, the defaults and the required fields of the original, so
// that an example which runs against the stand-in also runs against the
// original. It never reads a cluster and never touches a resource.
package input
