package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/cli/choice"
)

// Output formats.
const (
	formatTable = ""
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// format is the flag -o of a command.
type format struct{ value string }

// add adds the flag to a command, with the formats it allows in addition to the table.
func (f *format) add(cmd *cobra.Command, allowed ...string) {
	output := choice.One(&f.value, formatTable, allowed...)
	cmd.Flags().VarP(output, "output", "o", "Output format: "+output.List()+".")
}

// structured prints a value as JSON or YAML; done is false for other formats.
func (f *format) structured(w io.Writer, v any) (done bool, err error) {
	switch f.value {
	case formatJSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "    ")
		e.SetEscapeHTML(false)
		return true, e.Encode(v)
	case formatYAML:
		raw, err := yaml.Marshal(v)
		if err != nil {
			return true, fmt.Errorf("cannot encode: %w", err)
		}
		_, err = w.Write(raw)
		return true, err
	}
	return false, nil
}

// paint colours text where it is true: on a terminal.
type paint bool

// painted is true where the output is a terminal that shows colours and the
// environment does not turn them off (https://no-color.org).
func painted(out io.Writer) paint {
	f, ok := out.(*os.File)
	_, no := os.LookupEnv("NO_COLOR")
	return paint(ok && !no && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

// with returns a text after an escape sequence of ECMA-48 and before one that resets it.
func (p paint) with(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// The styles that output uses: bold for what to look at, red for refused, yellow
// for a warning, green for allowed.
func (p paint) bold(s string) string   { return p.with("1", s) }
func (p paint) red(s string) string    { return p.with("31", s) }
func (p paint) green(s string) string  { return p.with("32", s) }
func (p paint) yellow(s string) string { return p.with("33", s) }

// node of a tree.
type node struct {
	text string
	// lines are printed below the text, before the nodes.
	lines []string
	nodes []*node
}

// add adds a node below this one.
func (n *node) add(text string, lines ...string) *node {
	c := &node{text: text, lines: lines}
	n.nodes = append(n.nodes, c)
	return c
}

// addf adds a node below this one, formatted.
func (n *node) addf(layout string, args ...any) *node { return n.add(fmt.Sprintf(layout, args...)) }

// draw draws a tree.
func (n *node) draw(w io.Writer) { n.drawAt(w, "", "") }

// drawAt draws with first before the text and rest before what is below it.
func (n *node) drawAt(w io.Writer, first, rest string) {
	fmt.Fprintln(w, first+n.text)
	stem := rest
	if len(n.nodes) > 0 {
		stem += "│  "
	} else {
		stem += "   "
	}
	for _, l := range n.lines {
		fmt.Fprintln(w, strings.TrimRight(stem+l, " "))
	}
	for i, c := range n.nodes {
		if i == len(n.nodes)-1 {
			c.drawAt(w, rest+"└─ ", rest+"   ")
			continue
		}
		c.drawAt(w, rest+"├─ ", rest+"│  ")
	}
}
