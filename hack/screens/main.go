package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	recorded = "test/kubectl/testdata/pending-held.txt"
	picture  = "docs/images/pending.svg"
	typed    = "$ kubectl kausality pending"
)

// values in place of what differs between runs, with the widths that the columns have.
var values = strings.NewReplacer("<revision>", "xdatabases-7f3", "<age>", "1m34s", "<hash>", "da6cb79af0ff",
	"<id 1>", "7642947475a29290", "<id 2>", "1f2e3d4c5b6a7980", "by field manager controlplane (Apply), a claim", "by alice@example.com")

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := write(root); err != nil {
		fmt.Fprintln(os.Stderr, "screens:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	out, err := draw(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, picture), out, 0o644) //nolint:gosec // It is committed and public.
}

// Sizes of the picture.
const (
	font    = 13.0
	letter  = font * 0.6
	line    = 19.0
	padding = 14.0
)

// Escapes as the recorded screens show them.
const (
	bold  = "␛[1m"
	plain = "␛[0m"
)

// draw the recorded screen.
func draw(root string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(root, recorded)) //nolint:gosec // A file of this repository.
	if err != nil {
		return nil, fmt.Errorf("cannot read the recorded screen: %w", err)
	}
	text := values.Replace(strings.TrimRight(string(raw), "\n"))
	if at := strings.IndexByte(text, '<'); at >= 0 {
		return nil, fmt.Errorf("%s has %q, which no value replaces", recorded, text[at:min(len(text), at+20)])
	}
	lines := append([]string{typed}, strings.Split(text, "\n")...)
	widest := 0
	for _, l := range lines {
		widest = max(widest, utf8.RuneCountInString(shown(l)))
	}
	width, height := float64(widest)*letter+2*padding, float64(len(lines))*line+2*padding
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" `+
		`aria-label="The output of kubectl kausality pending">`+"\n", width, height, width, height)
	fmt.Fprintf(&out, `<rect width="%.0f" height="%.0f" rx="8" fill="#1b1f24"/>`+"\n", width, height)
	fmt.Fprintf(&out, `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="%.0f" fill="#d6dde6">`+"\n", font)
	for i, l := range lines {
		style := ""
		switch {
		case i == 0:
			style = ` fill="#8fb8ff"`
		case strings.HasPrefix(l, "  ID "):
			style = ` fill="#93a1b0"`
		case strings.Contains(l, "To approve"):
			style = ` fill="#a5e3a1"`
		}
		fmt.Fprintf(&out, `<text x="%.0f" y="%.1f" xml:space="preserve"%s>%s</text>`+"\n", padding, padding+line*(float64(i)+0.75), style, spans(l))
	}
	out.WriteString("</g>\n</svg>\n")
	return out.Bytes(), nil
}

// shown is a line without escapes.
func shown(l string) string { return strings.NewReplacer(bold, "", plain, "").Replace(l) }

// spans of a line, in bold where it is on the screen.
func spans(l string) string {
	before, rest, ok := strings.Cut(l, bold)
	strong, after, _ := strings.Cut(rest, plain)
	if !ok {
		return escaped(l)
	}
	return escaped(before) + `<tspan font-weight="bold" fill="#ffffff">` + escaped(strong) + `</tspan>` + escaped(after)
}

func escaped(text string) string {
	var out bytes.Buffer
	if err := xml.EscapeText(&out, []byte(text)); err != nil {
		return "" // a bytes.Buffer takes everything
	}
	return out.String()
}
