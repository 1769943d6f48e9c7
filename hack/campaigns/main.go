// Command campaigns reports what the campaigns have shown, by the results in test/campaigns: which of them are from before the last change
// of what they are about. With -write it writes the table in docs/reliability.md.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/hack/campaign"
)

// kind of campaign.
type kind struct {
	name, played string
	// planned items.
	planned int
	// unit is how many of what is played are in an item.
	unit int
}

var kinds = []kind{
	{"adversary", "seeds", 200, 1},
	{"faults", "runs", 103, 1},
	{"model", "seeds", 100, 1000},
	{"random", "seeds", 100, 1},
	{"soak", "minutes", 6, 10},
}

// The page with the table, and the marks around it.
const page, begins, ends = "docs/reliability.md", "<!-- generated: campaigns -->\n", "<!-- end of campaigns -->\n"

func main() {
	write := flag.Bool("write", false, "write the table in docs/reliability.md")
	flag.Parse()
	if err := run(*write, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "campaigns:", err)
		os.Exit(1)
	}
}

func run(write bool, out io.Writer) error {
	repository, err := campaign.At(".")
	if err != nil && !write {
		_, err := fmt.Fprintf(out, "campaigns: whether their results are outdated is unknown: %v\n", err)
		return err
	}
	root := cmp.Or(string(repository), ".")
	var rows []summary
	for _, k := range kinds {
		all, err := campaign.Read(filepath.Join(root, "test", "campaigns", k.name+".tsv"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		rows = append(rows, sum(k, campaign.Last(all)))
	}
	if write {
		return writeTable(filepath.Join(root, page), rows)
	}
	for _, s := range rows {
		if _, err := fmt.Fprintln(out, s.line(repository)); err != nil {
			return err
		}
	}
	return nil
}

// summary of the results of a campaign.
type summary struct {
	kind
	count, passed int
	// commits at which it was played, oldest first, and the days of its first and last result.
	commits     []string
	first, last string
	figures     map[string]int
}

func sum(k kind, all []campaign.Result) summary {
	s := summary{kind: k, count: len(all), figures: map[string]int{}}
	for _, r := range all {
		if r.Passed {
			s.passed++
		}
		if !slices.Contains(s.commits, r.Commit) {
			s.commits = append(s.commits, r.Commit)
		}
		day := r.At.UTC().Format("2006-01-02")
		s.first, s.last = min(cmp.Or(s.first, day), day), max(s.last, day)
		for name, value := range r.Figures {
			if n, err := strconv.Atoi(value); err == nil {
				s.figures[name] = max(s.figures[name], n)
			}
		}
	}
	return s
}

// line for make test: how many items have passed, and how many commits have changed the product since the first of them was played.
func (s summary) line(r campaign.Repository) string {
	out := fmt.Sprintf("campaign %s: %d of %d %s passed", s.name, s.passed*s.unit, s.planned*s.unit, s.played)
	if failed := s.count - s.passed; failed > 0 {
		out += fmt.Sprintf(", %d failed", failed*s.unit)
	}
	if s.count == 0 {
		return out + "; none was played"
	}
	since := 0
	for _, c := range s.commits {
		n, err := r.Since(strings.TrimSuffix(c, "+"), campaign.Product...)
		if err != nil {
			return out + fmt.Sprintf(", at %s, which this repository does not have", c)
		}
		since = max(since, n)
	}
	out += " at " + strings.Join(s.commits, ", ")
	if since == 0 {
		return out
	}
	return out + fmt.Sprintf("; %d commits have changed %s since: it is outdated", since, strings.Join(campaign.Product, ", "))
}

// writeTable into the page.
func writeTable(path string, rows []summary) error {
	text, err := os.ReadFile(path) //nolint:gosec // It is a page of this repository.
	if err != nil {
		return err
	}
	head, rest, found := bytes.Cut(text, []byte(begins))
	_, tail, closed := bytes.Cut(rest, []byte(ends))
	if !found || !closed {
		return fmt.Errorf("%s has no markers", path)
	}
	var out strings.Builder
	out.WriteString("| campaign | passed | failed | played | commit | the most of its figures |\n|---|---|---|---|---|---|\n")
	for _, s := range rows {
		var figures []string
		for _, name := range slices.Sorted(maps.Keys(s.figures)) {
			figures = append(figures, fmt.Sprintf("%s %d", name, s.figures[name]))
		}
		played := cmp.Or(s.first, "not yet")
		if s.first != s.last {
			played += " to " + s.last
		}
		fmt.Fprintf(&out, "| %s | %d of %d %s | %d | %s | %s | %s |\n", s.name, s.passed*s.unit, s.planned*s.unit, s.played, (s.count-s.passed)*s.unit, played,
			strings.Join(s.commits, ", "), strings.Join(figures, ", "))
	}
	return os.WriteFile(path, slices.Concat(head, []byte(begins+out.String()+ends), tail), 0o600)
}
