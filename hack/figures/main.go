package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	update := flag.Bool("update", false, "tighten the limits in "+limitsFile+" to what the code is now, and loosen none")
	flag.Parse()
	lines, err := run(".", *update)
	for _, line := range lines {
		_, _ = fmt.Println(line)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "figures:", err)
	}
	if err != nil || len(lines) > 0 {
		os.Exit(1)
	}
}

// run returns a line for each limit that the repository at root crosses. With update, it tightens the limits before.
func run(root string, update bool) ([]string, error) {
	m, err := measure(root)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(root, filepath.FromSlash(limitsFile))
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text := string(raw)
	if update {
		if text, err = tightened(text, m); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	limits, err := parse(text)
	if err != nil {
		return nil, err
	}
	return crossed(limits, m), nil
}
