// Package scope is which resources and objects are guarded: by the webhook
// configuration, which the API server reads and which is stored nowhere else. It
// also writes and removes the mark that Kausality is being removed.
package scope
