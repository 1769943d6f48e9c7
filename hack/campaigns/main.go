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
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/hack/campaign"
)

// kind of campaign.
type kind struct {
	name, played string
	// planned is how many of what is played.
	planned int
	// judge is where the campaign is; empty for within the product.
	judge string
}

var kinds = []kind{
	{"adversary", "seeds", 200, "test/adversary"},
	{"faults", "runs", 105, "test/faults"},
	{"model", "seeds", 100_000, ""},
	{"random", "seeds", 100, "test/gate"},
	{"soak", "minutes", 60, "test/soak"},
}

// between are the first and the last of what is in an item: seeds, or the minutes from and to.
var between = regexp.MustCompile(`^(seeds|minutes) ([0-9.]+) to ([0-9.]+)$`)

// amount of what is played that is in an item.
func amount(item string) (float64, error) {
	m := between.FindStringSubmatch(item)
	if m == nil {
		return 1, nil
	}
	from, errFrom := strconv.ParseFloat(m[2], 64)
	to, errTo := strconv.ParseFloat(m[3], 64)
	if m[1] == "seeds" {
		from--
	}
	return to - from, errors.Join(errFrom, errTo)
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
		s, err := sum(k, campaign.Last(all))
		if err != nil {
			return err
		}
		rows = append(rows, s)
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
	passed, failed float64
	// commits at which it was played, oldest first, and the days of its first and last result.
	commits     []string
	first, last string
	figures     map[string]int
}

func sum(k kind, all []campaign.Result) (summary, error) {
	s := summary{kind: k, figures: map[string]int{}}
	for _, r := range all {
		played, err := amount(r.Item)
		if err != nil {
			return summary{}, fmt.Errorf("campaign %s: %q: %w", k.name, r.Item, err)
		}
		if r.Passed {
			s.passed += played
		} else {
			s.failed += played
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
	return s, nil
}

// line for make test: how many items have passed, and how many commits have changed the product, or the campaign, since the first of them was
// played.
func (s summary) line(r campaign.Repository) string {
	out := fmt.Sprintf("campaign %s: %d of %d %s passed", s.name, int(s.passed), s.planned, s.played)
	if s.failed > 0 {
		out += fmt.Sprintf(", %d failed", int(math.Ceil(s.failed)))
	}
	if len(s.commits) == 0 {
		return out + "; none was played"
	}
	product, judge := 0, 0
	for _, c := range s.commits {
		n, err := r.Since(strings.TrimSuffix(c, "+"), campaign.Product...)
		if err == nil && s.judge != "" {
			var m int
			m, err = r.Since(strings.TrimSuffix(c, "+"), s.judge)
			judge = max(judge, m)
		}
		if err != nil {
			return out + fmt.Sprintf(", at %s, which this repository does not have", c)
		}
		product = max(product, n)
	}
	out += " at " + strings.Join(s.commits, ", ")
	switch {
	case product > 0:
		return out + fmt.Sprintf("; %d commits have changed %s since: it is outdated", product, strings.Join(campaign.Product, ", "))
	case judge > 0:
		return out + fmt.Sprintf("; %d commits have changed %s since, which judges it", judge, s.judge)
	}
	return out
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
	out.WriteString("| campaign | passed | failed | played | commit | highest figures |\n|---|---|---|---|---|---|\n")
	for _, s := range rows {
		var figures []string
		for _, name := range slices.Sorted(maps.Keys(s.figures)) {
			figures = append(figures, fmt.Sprintf("%s %d", name, s.figures[name]))
		}
		played := cmp.Or(s.first, "not yet")
		if s.first != s.last {
			played += " to " + s.last
		}
		fmt.Fprintf(&out, "| %s | %d of %d %s | %d | %s | %s | %s |\n", s.name, int(s.passed), s.planned, s.played, int(math.Ceil(s.failed)), played,
			strings.Join(s.commits, ", "), strings.Join(figures, ", "))
	}
	return os.WriteFile(path, slices.Concat(head, []byte(begins+out.String()+ends), tail), 0o600)
}
