package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// mermaid draws a trace as a Mermaid flowchart.
func mermaid(w io.Writer, hops []v1alpha1.Hop) {
	quote := strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ")
	fmt.Fprintln(w, "flowchart TD")
	for i, h := range hops {
		lines := graphLines(h)
		for n := range lines {
			lines[n] = quote.Replace(lines[n])
		}
		fmt.Fprintf(w, "    h%d[\"%s\"]\n", i, strings.Join(lines, "<br/>"))
		if i > 0 {
			fmt.Fprintf(w, "    h%d --> h%d\n", i-1, i)
		}
	}
}

// dot draws a trace in the language of Graphviz.
func dot(w io.Writer, hops []v1alpha1.Hop) {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ")
	fmt.Fprintln(w, "digraph trace {\n    node [shape=box];")
	for i, h := range hops {
		lines := graphLines(h)
		for n := range lines {
			lines[n] = quote.Replace(lines[n])
		}
		fmt.Fprintf(w, "    h%d [label=\"%s\"];\n", i, strings.Join(lines, `\n`))
		if i > 0 {
			fmt.Fprintf(w, "    h%d -> h%d;\n", i-1, i)
		}
	}
	fmt.Fprintln(w, "}")
}

// graphLines of one box.
func graphLines(h v1alpha1.Hop) []string {
	plain := &cli{}
	out := []string{hopName(h), "by " + plain.who(h)}
	if h.Generation > 0 {
		out[0] += fmt.Sprintf(", generation %d", h.Generation)
	}
	if !h.Timestamp.IsZero() {
		out[1] += plain.when(h.Timestamp, true)
	}
	return append(out, plain.hopLines(h)...)
}
