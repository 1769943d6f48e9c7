package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := write(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write the page of the repository at a directory.
func write(root string) error {
	rules, err := readSpecification(os.DirFS(root))
	if err != nil {
		return err
	}
	all, err := Citations(os.DirFS(root))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, pageFile), []byte(Page(rules, all)), 0o600); err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	return nil
}
