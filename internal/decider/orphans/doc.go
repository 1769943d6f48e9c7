// Package orphans marks managed resources whose external resources a policy leaves behind when their
// composite is deleted (kausality.io/deletion), and removes the marks of deletions that were not stored.
package orphans
