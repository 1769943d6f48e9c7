// Package race has whether the race detector runs, which allocates, too: tests that count what is allocated leave that out then.
package race
