package view

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/lists"
)

const (
	// maxRows of fields that are shown of a change.
	maxRows = 64
	// maxShown of a value in bytes, and maxLines of it.
	maxShown = 8 << 10
	maxLines = 120
	// redacted is in place of a secret value.
	redacted = "<redacted>"
)

// Difference of a change as a table.
type Difference struct {
	// Columns are what the cells of each row are.
	Columns []string
	Rows    []Row
	// More rows are left out.
	More int
}

// Row is one field.
type Row struct {
	Path  string
	Cells []Cell
}

// Cell is a value in lines.
type Cell struct {
	// Column that it is in.
	Column string
	// None: there is no value. Secret: it is not shown. Unknown: it is not known which value there is.
	None, Secret, Unknown bool
	Lines                 []Line
	// More bytes are left out.
	More int
}

// Line of a value.
type Line struct {
	Text string
	// Changed: the other value does not have it.
	Changed bool
}

// differenceOf returns the difference of a change in columns: what its author wants, what is stored and, of a managed resource, what is in the cloud
// (KR-17-12). g is the gate of the object; nil for none.
func differenceOf(d *v1alpha1.Drift, g *inspect.Gate) Difference {
	external, cloud := channel.IsExternal(d), g != nil && !g.Unsupported || channel.IsExternal(d)
	out := Difference{Columns: []string{"Wanted", "Stored"}}
	if cloud {
		out.Columns = append(out.Columns, "In the cloud")
	}
	for n, f := range d.Spec.Difference {
		if n == maxRows {
			out.More = len(d.Spec.Difference) - n
			break
		}
		r := Row{Path: channel.Clip(f.Path)}
		wanted, old := cellOf(f.New), cellOf(f.Old)
		mark(old.Lines, wanted.Lines)
		switch {
		case external: // which is wanted as it is stored
			r.Cells = []Cell{wanted, cellOf(f.New), old}
		case cloud:
			r.Cells = []Cell{wanted, old, inCloud(f, g)}
		default:
			r.Cells = []Cell{wanted, old}
		}
		for n := range r.Cells {
			r.Cells[n].Column = out.Columns[n]
		}
		out.Rows = append(out.Rows, r)
	}
	return out
}

// inCloud returns the value of a field in the external system, as far as the provider reports it: what is stored, unless it is part of the external drift.
func inCloud(f v1alpha1.FieldDifference, g *inspect.Gate) Cell {
	for _, other := range g.Difference {
		if other.Path == f.Path {
			return cellOf(other.Old)
		}
	}
	related := slices.ContainsFunc(g.Difference, func(other v1alpha1.FieldDifference) bool {
		return change.Under(other.Path, f.Path) || change.Under(f.Path, other.Path)
	})
	if related || g.Blind != "" || g.Gone || !change.Under(f.Path, "spec.forProvider") {
		return Cell{Unknown: true}
	}
	return cellOf(f.Old)
}

// cellOf returns the cell of a value as a Drift has it: JSON, which may be cut.
func cellOf(value string) Cell {
	switch value {
	case "":
		return Cell{None: true}
	case redacted:
		return Cell{Secret: true}
	}
	text := readable(value)
	c := Cell{}
	if len(text) > maxShown {
		end := maxShown
		for !utf8.RuneStart(text[end]) {
			end--
		}
		c.More, text = len(text)-end, text[:end]
	}
	lines := strings.Split(text, "\n")
	if len(lines) > maxLines {
		c.More += len(strings.Join(lines[maxLines:], "\n"))
		lines = lines[:maxLines]
	}
	c.Lines = lists.Map(lines, func(l string) Line { return Line{Text: l} })
	return c
}

// readable form of JSON: objects and lists with a line for each part, texts of several lines as these. What is no JSON, as it was cut, is as it is.
func readable(value string) string {
	if len(value) > maxShown {
		return value
	}
	var v any
	in := json.NewDecoder(strings.NewReader(value))
	in.UseNumber()
	if in.Decode(&v) != nil || in.More() {
		return value
	}
	if s, ok := v.(string); ok && strings.Contains(s, "\n") {
		return s
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false) // templates do that
	to.SetIndent("", "  ")
	if to.Encode(v) != nil {
		return value
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// mark marks the lines of two values that the other one does not have, by their longest common subsequence.
func mark(a, b []Line) {
	if len(a) < 2 && len(b) < 2 {
		return // all of it is the difference
	}
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if a[i].Text == b[j].Text {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i].Text == b[j].Text:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			a[i].Changed = true
			i++
		default:
			b[j].Changed = true
			j++
		}
	}
}
