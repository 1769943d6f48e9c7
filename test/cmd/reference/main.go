// Command reference writes the reference of an API into a page of the
// documentation, from the comments of its Go types.
//
//	reference --types DIR --page FILE TYPE…
//
// The reference of each TYPE, and of the structs its fields have in turn, takes
// the place of what is between the lines <!-- reference TYPE --> and
// <!-- end --> of the page. `make generate` calls it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("reference", flag.ContinueOnError)
	dir := fs.String("types", "", "directory of the Go types")
	page := fs.String("page", "", "page to write into")
	if err := fs.Parse(args); err != nil {
		return err
	}
	raw, err := os.ReadFile(*page)
	if err != nil {
		return fmt.Errorf("cannot read the page: %w", err)
	}
	types, err := load(*dir)
	if err != nil {
		return err
	}
	text := string(raw)
	for _, name := range fs.Args() {
		reference, err := types.reference(name)
		if err == nil {
			text, err = replace(text, name, reference)
		}
		if err != nil {
			return err
		}
	}
	if err := os.WriteFile(*page, []byte(text), 0o644); err != nil { //nolint:gosec // Part of the repository.
		return fmt.Errorf("cannot write the page: %w", err)
	}
	return nil
}

// replace what is between the marks of a type.
func replace(page, name, reference string) (string, error) {
	begin, end := fmt.Sprintf("<!-- reference %s -->\n", name), "<!-- end -->\n"
	head, rest, ok := strings.Cut(page, begin)
	if !ok {
		return "", fmt.Errorf("the page has no line %q", strings.TrimSpace(begin))
	}
	_, tail, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("the page has no line %q after %q", strings.TrimSpace(end), strings.TrimSpace(begin))
	}
	return head + begin + "\n" + reference + "\n" + end + tail, nil
}
