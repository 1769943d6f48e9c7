package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A baseline is the number of findings that a directory of the root may have,
// by its name and the kind of the findings. What is not in it may have none.
// The root itself is ".".
type baseline map[[2]string]int

// readBaseline of lines of a directory, a kind and a number.
func readBaseline(name string) (baseline, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot open baseline: %w", err)
	}
	defer f.Close() //nolint:errcheck // It was only read.
	out := baseline{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var dir, kind string
		var n int
		if _, err := fmt.Sscan(s.Text(), &dir, &kind, &n); err != nil {
			return nil, fmt.Errorf("cannot read baseline %q: %w", s.Text(), err)
		}
		out[[2]string{dir, kind}] = n
	}
	return out, nil
}

// countOf findings, by directory of the root.
func countOf(findings []finding) baseline {
	out := baseline{}
	for _, f := range findings {
		out[key(f)]++
	}
	return out
}

func key(f finding) [2]string {
	dir, _, below := strings.Cut(f.file, "/")
	if !below {
		dir = "."
	}
	return [2]string{dir, f.kind}
}

// lowered to what there is: no entry rises, and none is added.
func (b baseline) lowered(now baseline) baseline {
	out := baseline{}
	for k, was := range b {
		if n := min(was, now[k]); n > 0 {
			out[k] = n
		}
	}
	return out
}

// write the baseline, sorted.
func (b baseline) write(name string) error {
	var text strings.Builder
	keys := slices.SortedFunc(maps.Keys(b), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) })
	for _, k := range keys {
		_, _ = fmt.Fprintf(&text, "%s %s %d\n", k[0], k[1], b[k])
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("cannot write baseline: %w", err)
	}
	return nil
}
