package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// limitsFile is the file of limits below the root.
const limitsFile = "hack/figures/limits.tsv"

// rest is the name of a limit for all that has none of its own.
const rest = "*"

// A limit is a line of the file.
type limit struct {
	figure
	// value that the limit was set from.
	value, limit int
	// reason for a limit that is looser than headroom leaves.
	reason string
}

// String returns the line.
func (l limit) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s\t%s\t%d\t%d\t%s", l.kind, l.of, l.value, l.limit, l.reason))
}

// unreasoned reports whether the limit has no reason, or that of another limit.
func (l limit) unreasoned() bool {
	reason, ok := strings.CutPrefix(l.reason, strconv.Itoa(l.limit)+": ")
	return !ok || strings.TrimSpace(reason) == ""
}

// looser reports whether limit a of figures of a kind is looser than limit b.
func looser(kind string, a, b int) bool {
	if kind == kindComments {
		return a < b
	}
	return a > b
}

// headroom returns the limit that a value has without a reason: 5 % above it, for lines in full tens; 10 % below it for comments.
func headroom(kind string, value int) int {
	switch kind {
	case kindComments:
		return value * 9 / 10
	case kindLines:
		return (value*105 + 999) / 1000 * 10
	}
	return (value*105 + 99) / 100
}

// parse the lines of the file that are no comments.
func parse(text string) (map[figure]limit, error) {
	limits := map[figure]limit{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		l, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("cannot parse %q of %s: %w", line, limitsFile, err)
		}
		if _, ok := limits[l.figure]; ok {
			return nil, fmt.Errorf("cannot parse %s: %s of %s has two limits", limitsFile, l.kind, l.of)
		}
		limits[l.figure] = l
	}
	return limits, nil
}

func parseLine(line string) (l limit, err error) {
	cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(cells) < 4 || len(cells) > 5 {
		return l, errors.New("want kind, name, value, limit and reason")
	}
	l.kind, l.of, l.reason = cells[0], cells[1], strings.Join(cells[4:], "")
	if l.value, err = strconv.Atoi(cells[2]); err == nil {
		l.limit, err = strconv.Atoi(cells[3])
	}
	return l, err
}

// crossed returns a line for each figure that crosses its limit, and for each limit that is wrong.
func crossed(limits map[figure]limit, m figures) (lines []string) {
	for of, l := range limits {
		if _, ok := m.values[of]; !ok && of.of != rest {
			lines = append(lines, fmt.Sprintf("%s of %s: does not exist: delete the line of %s, as go run ./hack/figures --update does", of.kind, of.of, limitsFile))
		}
		if looser(of.kind, l.limit, headroom(of.kind, l.value)) && l.unreasoned() {
			lines = append(lines, fmt.Sprintf("%s of %s: the limit %d, set from %d, needs a reason in %s, which begins with \"%d: \"",
				of.kind, of.of, l.limit, l.value, limitsFile, l.limit))
		}
	}
	for of, value := range m.values {
		l, own := limits[of]
		if !own {
			l = limits[figure{of.kind, rest}]
		}
		if l.kind == "" {
			lines = append(lines, fmt.Sprintf("%s of %s: %d, no limit: add to %s: %s", of.kind, of.of, value, limitsFile,
				limit{figure: of, value: value, limit: headroom(of.kind, value)}))
		} else if looser(of.kind, value, l.limit) {
			lines = append(lines, crossing(of, value, m.writers[of], l))
		}
	}
	return slices.Sorted(slices.Values(lines))
}

// crossing returns what to do about a figure that crosses limit l, which is its own or that of the rest.
func crossing(of figure, value int, writers []string, l limit) string {
	at, simplify, raise := "at most", "simplify", "raise"
	if of.kind == kindComments {
		at, simplify, raise = "at least", "comment what a reader needs", "lower"
	}
	by := ""
	if len(writers) > 0 {
		by = fmt.Sprintf(" (%s)", strings.Join(writers, ", "))
	}
	text := fmt.Sprintf("%s of %s: %d%s, %s %d: %s, or ", of.kind, of.of, value, by, at, l.limit, simplify)
	if l.of != rest {
		return text + fmt.Sprintf("%s the limit in %s with a reason", raise, limitsFile)
	}
	to := headroom(of.kind, value)
	return text + fmt.Sprintf("add to %s with a reason: %s", limitsFile, limit{of, l.limit, to, fmt.Sprintf("%d:", to)})
}

// tightened returns the text of the file, with limits for what the figures are now where they became smaller than
// what the limits were set from, or a share of comments larger.
func tightened(text string, m figures) (string, error) {
	limits, err := parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		l, _ := parseLine(line)
		value, exists := m.values[l.figure]
		all, shared := limits[figure{l.kind, rest}]
		switch {
		case strings.HasPrefix(line, "#"), l.of == rest:
			out.WriteString(line)
		case !exists, shared && looser(l.kind, l.limit, all.limit) && !looser(l.kind, value, all.limit):
		case looser(l.kind, l.value, value) && looser(l.kind, l.limit, headroom(l.kind, value)):
			fmt.Fprintln(&out, limit{figure: l.figure, value: value, limit: headroom(l.kind, value)})
		default:
			out.WriteString(line)
		}
	}
	return out.String(), nil
}
