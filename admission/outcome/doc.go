// Package outcome is what is decided about a request: the Decision, the Verdict of a step that becomes one, and the Refusal with
// its message.
package outcome
