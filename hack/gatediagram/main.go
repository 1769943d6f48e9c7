package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kausality-io/function-kausality/hack/gatestates"
)

// The table is between these lines of docs/gate.md.
const (
	begin = "<!-- transitions: made by make generate -->\n"
	end   = "<!-- end of transitions -->\n"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := write(root); err != nil {
		fmt.Fprintln(os.Stderr, "diagram:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	rows := gatestates.Transitions()
	picture, err := draw(rows)
	if err != nil {
		return err
	}
	const mode = 0o644
	if err := os.WriteFile(filepath.Join(root, "docs", "images", "gate.svg"), picture, mode); err != nil {
		return fmt.Errorf("cannot write the picture: %w", err)
	}
	page := filepath.Join(root, "docs", "gate.md")
	old, err := os.ReadFile(page) //nolint:gosec // The page of this repository.
	if err != nil {
		return fmt.Errorf("cannot read the page: %w", err)
	}
	text, err := replace(old, table(rows))
	if err != nil {
		return err
	}
	return os.WriteFile(page, text, mode)
}

func replace(page []byte, with string) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, fmt.Errorf("docs/gate.md has no place for the table: want the lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return bytes.Join([][]byte{before, []byte(begin), []byte(with), []byte(end), after}, nil), nil
}

// table of transitions in Markdown; the numbers are those in the picture.
func table(rows []gatestates.Transition) string {
	var out strings.Builder
	out.WriteString("| | from | to | by | reason | when |\n|---|---|---|---|---|---|\n")
	for i, r := range rows {
		from := make([]string, 0, len(r.From))
		for _, s := range r.From {
			from = append(from, string(s))
		}
		by := make([]string, 0, len(r.By))
		for _, m := range r.By {
			by = append(by, string(m))
		}
		reason := r.Reason
		if reason != "" {
			reason = "`" + reason + "`"
		}
		fmt.Fprintf(&out, "| %d | %s | %s | %s | %s | %s |\n", i+1, strings.Join(from, ", "), r.To, strings.Join(by, ", "), reason, r.When)
	}
	return out.String()
}
