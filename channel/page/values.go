package page

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
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

// difference of a change as a table.
type difference struct {
	// From and To are what the columns are.
	From, To string
	Rows     []row
	// More rows are left out.
	More int
}

// row is one field.
type row struct {
	Path     string
	Old, New cell
}

// cell is a value in lines.
type cell struct {
	// None: there is no value. Secret: it is not shown.
	None, Secret bool
	Lines        []line
	// More bytes are left out.
	More int
}

// line of a value.
type line struct {
	Text string
	// Changed: the other value does not have it.
	Changed bool
}

// differenceOf a change in two columns (KR-17-12).
func differenceOf(d *v1alpha1.Drift) difference {
	out := difference{From: "Stored", To: "Would become"}
	if channel.IsExternal(d) {
		out.From, out.To = "In the cloud", "Wanted"
	}
	for n, f := range d.Spec.Difference {
		if n == maxRows {
			out.More = len(d.Spec.Difference) - n
			break
		}
		r := row{Path: channel.Clip(f.Path), Old: cellOf(f.Old), New: cellOf(f.New)}
		mark(r.Old.Lines, r.New.Lines)
		out.Rows = append(out.Rows, r)
	}
	return out
}

// cellOf a value as a Drift has it: JSON, which may be cut.
func cellOf(value string) cell {
	switch value {
	case "":
		return cell{None: true}
	case redacted:
		return cell{Secret: true}
	}
	text := readable(value)
	c := cell{}
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
	for _, l := range lines {
		c.Lines = append(c.Lines, line{Text: l})
	}
	return c
}

// readable form of JSON: objects and lists with a line for each part, texts of several lines as these. What is no JSON, as it was cut, is as it is.
func readable(value string) string {
	if len(value) > maxShown {
		return value
	}
	switch value[0] {
	case '{', '[':
		var out bytes.Buffer
		if json.Indent(&out, []byte(value), "", "  ") == nil {
			return out.String()
		}
	case '"':
		var s string
		if json.Unmarshal([]byte(value), &s) == nil && strings.Contains(s, "\n") {
			return s
		}
	}
	return value
}

// mark the lines of two values that the other one does not have, by their longest common subsequence.
func mark(a, b []line) {
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
