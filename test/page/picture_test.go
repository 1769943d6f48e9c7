package page

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// Sizes of a picture in pixels: a cell, and the space around all of them.
const (
	cellWidth, cellHeight = 8.4, 18
	around                = 12
)

// What differs from run to run on the picture.
var differs = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d+(s|m|m\d+s) ago`), "5m ago"},
	{regexp.MustCompile(`for \d+(s|m|m\d+s)\b`), "for 5m"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "2026-01-05T09:00:00Z"},
}

// picture of the screen as SVG: its text, with its colours.
func (c *console) picture() string {
	var out strings.Builder
	cols, rows := c.screen.Width(), c.screen.Height()
	width, height := around*2+float64(cols)*cellWidth, around*2+rows*cellHeight
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">`+"\n",
		width, height)
	fmt.Fprintf(&out, `<rect width="%.0f" height="%d" rx="8" fill="#1e1e2e"/>`+"\n", width, height)
	for y := range rows {
		if row := c.row(y); row != "" {
			fmt.Fprintf(&out, `<text x="%d" y="%d" fill="#e6e6ef" xml:space="preserve">%s</text>`+"\n", around, around+(y+1)*cellHeight-5, row)
		}
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// row of a picture: runs of cells with the same style.
func (c *console) row(y int) string {
	var out strings.Builder
	text, style := "", uv.Style{}
	end := func() {
		for _, v := range differs {
			text = v.pattern.ReplaceAllString(text, v.with)
		}
		if text != "" {
			fmt.Fprintf(&out, "<tspan%s>%s</tspan>", attributes(style), html.EscapeString(text))
		}
		text = ""
	}
	for x := range c.screen.Width() {
		cell := c.screen.CellAt(x, y)
		if cell == nil || cell.Width == 0 {
			continue
		}
		if !cell.Style.Equal(&style) {
			end()
			style = cell.Style
		}
		text += cell.Content
	}
	text = strings.TrimRight(text, " ")
	end()
	return out.String()
}

// attributes of a style in SVG.
func attributes(s uv.Style) (out string) {
	if s.Fg != nil {
		r, g, b, _ := s.Fg.RGBA()
		names := map[[3]bool]string{{false, true, true}: "#89dceb", {true, true, false}: "#f9e2af", {false, true, false}: "#a6e3a1", {true, false, false}: "#f38ba8"}
		if name := names[[3]bool{r > 0x3fff, g > 0x3fff, b > 0x3fff}]; name != "" {
			out += ` fill="` + name + `"`
		}
	}
	if s.Attrs&uv.AttrBold != 0 {
		out += ` font-weight="bold"`
	}
	if s.Attrs&uv.AttrFaint != 0 {
		out += ` fill-opacity="0.65"`
	}
	if s.Underline != uv.UnderlineNone {
		out += ` text-decoration="underline"`
	}
	return out
}

// TestTUIPicture covers KR-17-20: the picture of docs/kubectl.md is what the terminal shows of a change.
func TestTUIPicture(t *testing.T) {
	s := newTerminalFixture(t, "store")
	s.settled("orders")
	s.revision("xstores-8c1")
	s.refused("xstores-8c1", "gold", "orders")
	c := tui(t, the.kubeconfigs[hans], 120, 34)
	c.awaits("live").to("xstores-8c1").keys(enter)
	c.awaits("live", "change Database store/store-orders", "spec.forProvider.tags.tier", "No votes.", "XStore store/orders", "External resource store-orders",
		"gate closed", "[a] Approve once")
	root, err := parts.Root()
	require.NoError(t, err)
	file, got := filepath.Join(root, "docs", "images", "terminal.svg"), c.picture()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644)) //nolint:gosec // Part of the repository.
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "make it again: go test -C test ./page -run TestTUIPicture -update")
}
