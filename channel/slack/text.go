package slack

import (
	"strings"
	"unicode/utf16"

	"github.com/slack-go/slack"

	"github.com/kausality-io/function-kausality/channel"
)

// cut cuts a text to a number of characters as Slack counts them, which is in UTF-16.
func cut(s string, limit int) string {
	if length(s) <= limit {
		return s
	}
	n := 0
	for i, r := range s {
		if n += utf16.RuneLen(r); n > limit-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// length returns the length of a text in UTF-16 units.
func length(s string) (n int) {
	for _, r := range s {
		n += utf16.RuneLen(r) // of a rune of a string, which is never a surrogate
	}
	return n
}

// oneLine returns a text on one line, cut. Of a long one no more is read than may be shown.
func oneLine(s string, limit int) string {
	if most := 16 * limit; len(s) > most {
		s = s[:most] + "…"
	}
	return cut(strings.Join(strings.Fields(channel.Printable(s)), " "), limit)
}

// escaper of what Slack interprets in texts of messages.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// mentions are what clients link by themselves; a word joiner breaks it.
var mentions = strings.NewReplacer("@", "@\u2060", "`", "ˋ", "*", "∗", "_", "\u2060_", "~", "∼", "://", ":\u2060//")

// fallback text of a message, which notifications show: Slack interprets it, so that all of that is escaped (KR-17-04).
func fallback(s string) string {
	return escaper.Replace(mentions.Replace(oneLine(s, maxHeader)))
}

// plain text object, which has no formatting. Mentions are broken all the same.
func plain(s string, limit int) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, cut(strings.ReplaceAll(oneLine(s, limit), "@", "@\u2060"), limit), false, false)
}

// literal text in a rich text, which Slack shows as it is and does not interpret.
func literal(s string, bold bool) slack.RichTextSectionElement {
	var style *slack.RichTextSectionTextStyle
	if bold {
		style = &slack.RichTextSectionTextStyle{Bold: true}
	}
	return slack.NewRichTextSectionTextElement(s, style)
}
