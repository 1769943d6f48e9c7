// Package unread tests on the real Crossplane what becomes of pipelines where Crossplane may not read the policies of Kausality.
package unread
