package cli

import (
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// language of a program that draws graphs: what is before and after the nodes, a
// node, with its number and text, an edge, with two numbers, and the text of a node.
type language struct {
	head, node, edge, tail, newline string
	quote                           *strings.Replacer
}

// mermaid is a flowchart of Mermaid.
var mermaid = language{
	head: "flowchart TD\n", node: "    h%d[\"%s\"]\n", edge: "    h%d --> h%d\n", newline: "<br/>",
	quote: strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " "),
}

// dot is the language of Graphviz.
var dot = language{
	head: "digraph trace {\n    node [shape=box];\n", node: "    h%d [label=\"%s\"];\n", edge: "    h%d -> h%d;\n", tail: "}\n", newline: `\n`,
	quote: strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " "),
}

// draw draws a trace as a chain of nodes.
func (l language) draw(w io.Writer, hops []v1alpha1.Hop) {
	fmt.Fprint(w, l.head)
	for i, h := range hops {
		lines := graphLines(h)
		for n := range lines {
			lines[n] = l.quote.Replace(lines[n])
		}
		fmt.Fprintf(w, l.node, i, strings.Join(lines, l.newline))
		if i > 0 {
			fmt.Fprintf(w, l.edge, i-1, i)
		}
	}
	fmt.Fprint(w, l.tail)
}

// Sizes of the picture in pixels. A letter of a monospaced font is 0.6 times as
// wide as the font's size.
const (
	svgFont    = 13.0
	svgLetter  = svgFont * 0.6
	svgLine    = 19.0
	svgPadding = 12.0
	svgArrow   = 32.0
)

// svg draws a trace as a picture: a box for each hop, the origin on top.
func svg(w io.Writer, hops []v1alpha1.Hop) {
	boxes := make([][]string, 0, len(hops))
	width, height := 0.0, svgPadding
	for _, h := range hops {
		lines := graphLines(h)
		for _, l := range lines {
			width = max(width, svgLetter*float64(utf8.RuneCountInString(l))+2*svgPadding)
		}
		height += svgBox(lines) + svgArrow
		boxes = append(boxes, lines)
	}
	height -= svgArrow - svgPadding
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="ui-monospace, monospace" font-size="%.0f">
<title>%s</title>
<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
`, width+2*svgPadding, max(height, 2*svgPadding), svgFont, svgTitle(hops))
	y := svgPadding
	for i, lines := range boxes {
		if i > 0 {
			fmt.Fprintf(w, "<path d=\"M%[1]g %[2]gV%[3]g\" stroke=\"black\" marker-end=\"url(#head)\"/>\n", 4*svgPadding, y-svgArrow, y)
		}
		fmt.Fprintf(w, "<rect x=\"%g\" y=\"%g\" width=\"%.0f\" height=\"%g\" rx=\"6\" fill=\"#f6f8fa\" stroke=\"#57606a\"/>\n",
			svgPadding, y, width, svgBox(lines))
		for n, l := range lines {
			weight := ""
			if n == 0 {
				weight = ` font-weight="bold"`
			}
			fmt.Fprintf(w, "<text x=\"%g\" y=\"%g\"%s>%s</text>\n", 2*svgPadding, y+svgPadding+svgLine*float64(n)+svgFont, weight, html.EscapeString(l))
		}
		y += svgBox(lines) + svgArrow
	}
	fmt.Fprintln(w, "</svg>")
}

// svgBox returns the height of a box.
func svgBox(lines []string) float64 { return svgLine*float64(len(lines)) + 2*svgPadding }

// svgTitle returns the accessible name of a picture, escaped for XML.
func svgTitle(hops []v1alpha1.Hop) string {
	if len(hops) == 0 {
		return "unknown cause"
	}
	return html.EscapeString("What caused " + hopName(hops[len(hops)-1]))
}

// graphLines returns the text of one box, with times instead of ages: a picture is
// read later.
func graphLines(h v1alpha1.Hop) []string {
	plain := view{}
	out := []string{hopName(h), "by " + plain.who(h)}
	if h.Generation > 0 {
		out[0] += fmt.Sprintf(", generation %d", h.Generation)
	}
	if !h.Timestamp.IsZero() {
		out[1] += plain.when(h.Timestamp, true)
	}
	return append(out, plain.hopLines(h)...)
}
