package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	counts := flag.Bool("counts", false, "print the number of findings of each directory, not the findings")
	flag.Parse()

	n, err := run(os.Stdout, *root, flag.Args(), *counts)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "wordlist:", err)
		os.Exit(2)
	}
	if n > 0 {
		os.Exit(1)
	}
}

// run prints the findings below dirs, which are relative to root; all where
// there are none. It returns their number.
func run(out io.Writer, root string, dirs []string, counts bool) (int, error) {
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	var all []finding
	for _, dir := range dirs {
		found, err := scan(root, path.Clean(dir))
		if err != nil {
			return 0, err
		}
		all = append(all, found...)
	}
	all, _ = excused(all, exceptions)
	slices.SortStableFunc(all, func(a, b finding) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	if !counts {
		for _, f := range all {
			_, _ = fmt.Fprintln(out, f)
		}
		return len(all), nil
	}
	sums := map[string]int{}
	for _, f := range all {
		sums[path.Dir(f.file)]++
	}
	for _, dir := range slices.Sorted(maps.Keys(sums)) {
		_, _ = fmt.Fprintf(out, "%5d  %s\n", sums[dir], dir)
	}
	return len(all), nil
}
