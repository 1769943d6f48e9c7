package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

// Limits that more than one figure uses.
const (
	// wideLine is the length in characters from which a line of a test is too long to review.
	wideLine = 160

	// sharedBy is how many steps may write one field.
	sharedBy = 2

	// listed is how many entries of each kind --list prints.
	listed = 15
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	list := flag.Bool("list", false, "also name the functions, fields and files behind the figures")
	flag.Parse()

	if err := run(os.Stdout, *root, *list); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run prints the figures of the repository at root.
func run(out io.Writer, root string, list bool) error {
	files, err := load(root)
	if err != nil {
		return err
	}

	product := slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return f.test })

	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "figure\tvalue\ttarget")

	for _, r := range slices.Concat(sizes(product), states(product), lengths(product), shares(product), tests(files)) {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", r.name, r.value, r.target)
	}

	if err := w.Flush(); err != nil || !list {
		return err
	}

	details(out, files, product)

	return nil
}

// A row is one figure. Target is empty where none is set.
type row struct {
	name, value, target string
}

// sizes of the product and of the root packages: all lines of files beside tests.
func sizes(product []*file) []row {
	var code, lines int

	for _, f := range product {
		code += f.code
		lines += f.lines
	}

	rows := []row{
		{"product lines", fmt.Sprint(lines), ""},
		{"product lines of code (no comments, no blanks)", fmt.Sprint(code), ""},
	}

	for _, root := range []struct {
		dir    string
		target string
	}{{"admission", "3000"}, {"fn", "1600"}, {"webhook", "1200"}} {
		sum := 0
		for _, f := range in(product, root.dir) {
			sum += f.lines
		}

		rows = append(rows, row{"lines of package " + root.dir, fmt.Sprint(sum), "<= " + root.target})
	}

	return rows
}

// states of package admission: its widest type and what its steps share.
func states(product []*file) []row {
	name, methods := widest(in(product, "admission"))
	rows := []row{{"methods of the widest type of admission: " + name, fmt.Sprint(methods), "<= 60"}}

	w := writes(in(product, "admission"))
	if len(w.steps) == 0 {
		return append(rows, row{"fields that more than two steps write", "no variable steps", "0"})
	}

	return append(rows,
		row{"steps of a decision", fmt.Sprint(len(w.steps)), ""},
		row{"fields that steps write", fmt.Sprint(len(w.fields)), ""},
		row{"fields that more than two steps write", fmt.Sprint(len(w.shared())), "0"})
}

// lengths of functions.
func lengths(product []*file) []row {
	all := functions(product)
	if len(all) == 0 {
		return nil
	}

	over := 0

	for _, f := range all {
		if f.lines > 40 {
			over++
		}
	}

	return []row{
		{"functions", fmt.Sprint(len(all)), ""},
		{"function lines, 90th percentile", fmt.Sprint(all[(len(all)-1)/10].lines), "<= 30"},
		{"function lines, longest: " + all[0].name, fmt.Sprint(all[0].lines), "<= 60"},
		{"functions over 40 lines", fmt.Sprint(over), ""},
	}
}

// shares of comments.
func shares(product []*file) []row {
	return []row{
		{"comments, product", share(product), ">= 18 %"},
		{"comments, cmd and cli", share(below(product, "cmd", "cli")), ">= 10 %"},
	}
}

// share of comment lines: of comments and code, and of all lines.
func share(files []*file) string {
	var comments, all, lines int

	for _, f := range files {
		comments += f.comments
		all += f.comments + f.code
		lines += f.lines
	}

	if all == 0 {
		return "no files"
	}

	return fmt.Sprintf("%.1f %% (%.1f %%)", percent(comments, all), percent(comments, lines))
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

// tests counts lines of test code and those that are too long.
func tests(files []*file) []row {
	var lines, wide int

	for _, f := range files {
		if f.test {
			lines += f.lines
			wide += f.wide
		}
	}

	return []row{
		{"test lines (with test/)", fmt.Sprint(lines), ""},
		{fmt.Sprintf("test lines over %d characters", wideLine), fmt.Sprint(wide), "0"},
	}
}

// details names what is behind the figures.
func details(out io.Writer, files, product []*file) {
	_, _ = fmt.Fprintln(out, "\nlongest functions:")

	longest := functions(product)
	for _, f := range longest[:min(listed, len(longest))] {
		_, _ = fmt.Fprintf(out, "  %3d %s\n", f.lines, f.name)
	}

	w := writes(in(product, "admission"))
	if shared := w.shared(); len(shared) > 0 {
		_, _ = fmt.Fprintln(out, "\nfields that more than two steps write:")

		for _, field := range shared {
			_, _ = fmt.Fprintf(out, "  %-20s %v\n", field, w.fields[field])
		}
	}

	wide := slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return !f.test || f.wide == 0 })
	if len(wide) == 0 {
		return
	}

	slices.SortStableFunc(wide, func(a, b *file) int { return b.wide - a.wide })
	_, _ = fmt.Fprintf(out, "\ntest files with lines over %d characters:\n", wideLine)

	for _, f := range wide {
		_, _ = fmt.Fprintf(out, "  %3d %s\n", f.wide, f.path)
	}
}
