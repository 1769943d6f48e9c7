package terminal

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kausality-io/function-kausality/channel"
)

// maxText of a line in bytes, before it is wrapped.
const maxText = 2000

// safe returns a text in one line that a terminal shows as it is: without control characters, and of a bounded length (KR-17-21).
func safe(s string) string {
	if len(s) > maxText { // cut first: it may be of any size
		end := maxText
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "…"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ' '
		case r >= '\ufe00' && r <= '\ufe0f', r >= '\U000e0100' && r <= '\U000e01ef':
			return -1 // variation selectors, after which terminals differ in the width of what is before
		}
		return r
	}, channel.Printable(s))
}

// wrap wraps a text to lines of a width in cells; at least one.
func wrap(s string, width int) []string {
	if width < 1 {
		width = 1
	}
	if ansi.StringWidth(s) <= width {
		return []string{s}
	}
	return strings.Split(ansi.Wrap(s, width, ""), "\n")
}

// fit cuts a text to a width in cells, and fills it with spaces.
func fit(s string, width int) string {
	s = ansi.Truncate(s, width, "…")
	return s + strings.Repeat(" ", max(width-ansi.StringWidth(s), 0))
}

// age returns the age of a time, as kubectl prints it.
func age(now time.Time, t metav1.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// when returns a time as text.
func when(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
