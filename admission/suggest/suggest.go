package suggest

import "strings"

// Nearest returns the nearest of some names to one that is unknown, for the suggestion "did you mean";
// "" where none is near: a third of its letters may differ, and at most three (KR-12-24).
func Nearest(name string, names []string) string {
	best, limit := "", min(len(name)/3, 3)
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d <= limit {
			best, limit = n, d-1
		}
	}
	return best
}

// distance returns the Levenshtein distance between two names, with the exchange of two neighbours as
// one edit.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		next := make([]int, len(y)+1)
		next[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			next[j+1] = min(last[j]+cost, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last = last, next
	}
	return last[len(y)]
}
