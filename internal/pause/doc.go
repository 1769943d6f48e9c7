// Package pause waits between two attempts, or two rounds, of what runs until its context ends.
package pause
