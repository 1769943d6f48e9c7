// Package heartbeat shows whether the watches of a process are up to date: by a
// Lease that replicas keep writing, and that each of them watches over the
// connection of its other watches (KR-13-24).
package heartbeat
