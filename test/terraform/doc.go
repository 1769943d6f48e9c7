// Package terraform has the tests that run the real OpenTofu: its plans are checked before they are applied (KR-08-41, KR-08-63).
package terraform
