package carry

import (
	"strings"
	"unicode"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Names of the tags.
const (
	TagTraceID   = v1alpha1.AnnotationPrefix + "trace-id"
	TagInitiator = v1alpha1.AnnotationPrefix + "initiator"
	TagOrigin    = v1alpha1.AnnotationPrefix + "origin"
)

var tagNames = []string{TagTraceID, TagInitiator, TagOrigin}

// Limits of AWS on tags: how many a resource may have, how long a key and a
// value may be, in characters.
const (
	MaxTags     = 50
	MaxTagKey   = 128
	MaxTagValue = 256
)

// TagValue returns a text in a form that AWS accepts and returns unchanged: letters, digits, space and + - = . _ : /
// @, at most 256 characters, no space at either end. Other characters become "_". A text that is too long ends in a
// dash and 8 hex digits of its hash, so that two long texts stay different. TagValue of its own result is the same.
func TagValue(s string) string {
	return shorten(strings.TrimFunc(strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar:
			return '_'
		case unicode.IsLetter(r), unicode.IsNumber(r), strings.ContainsRune(" +-=._:/@", r):
			return r
		}
		return '_'
	}, s), unicode.IsSpace), s)
}

// printable returns a text for an environment variable: no control characters, no longer than a tag's value.
func printable(s string) string {
	return shorten(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '_'
		}
		return r
	}, s), s)
}

// shorten cuts a text to MaxTagValue characters; whole is the text that its hash is taken of.
func shorten(text, whole string) string {
	runes := []rune(text)
	if len(runes) <= MaxTagValue {
		return text
	}
	end := "-" + annotation.Hash([]byte(whole), 8)
	return string(runes[:MaxTagValue-len(end)]) + end
}
