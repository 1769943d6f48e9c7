// Package oci makes the runtime image of Kausality from a static binary and
// nothing else, the same one that the Dockerfile describes, and checks images
// and Crossplane packages made of it: right architecture, right entrypoint
// without arguments (Crossplane passes none to functions), not root.
//
// The same binary always gives the same image, byte for byte. It talks to no
// registry and no Docker daemon.
package oci
