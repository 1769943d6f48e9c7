// Package client talks to the test cloud: the provider uses its resources, the
// tests use its control API as well. It needs nothing but the standard library
// and package cloud.
//
// Refusals of the cloud are *Error; IsNotFound and IsConflict distinguish the
// common ones. A Client is safe for concurrent use.
package client
