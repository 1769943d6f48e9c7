// Package auditlog reads the audit log of an API server while it grows: a Tail
// returns each line once, after it is complete. It decodes nothing.
package auditlog
