// Package history tests the store of records in PostgreSQL, of the system's packages, and its server on a real control plane.
package history
