package external

import (
	"fmt"
	"maps"
	"strings"
	"unicode"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Keys of the provenance tags.
const (
	TagTraceID   = v1alpha1.AnnotationPrefix + "trace-id"
	TagInitiator = v1alpha1.AnnotationPrefix + "initiator"
	TagOrigin    = v1alpha1.AnnotationPrefix + "origin"
)

// Limits of AWS on tags: how many a resource may have, how long a key and a
// value may be, in characters.
const (
	MaxTags     = 50
	MaxTagKey   = 128
	MaxTagValue = 256
)

// Tags returns the provenance tags within AWS's limits; nil for the zero Provenance (KR-08-43). It always returns all
// three keys.
func (p Provenance) Tags() map[string]string {
	if p == (Provenance{}) {
		return nil
	}
	return map[string]string{TagTraceID: TagValue(p.TraceID), TagInitiator: TagValue(p.Initiator), TagOrigin: TagValue(p.Origin)}
}

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

// WithTags returns spec.forProvider.tags with the provenance tags in it. Other tags stay as they are. Where the
// change is not accepted, the provenance tags are those of observed: a tag that changes by itself would be external
// drift. Where a resource has no room for all of the provenance tags, none is added and an error is returned. The
// inputs are not modified; the result is nil where there are no tags (KR-08-43).
func WithTags(desired, observed map[string]any, next map[string]string, accepted bool) (map[string]any, error) {
	out := map[string]any{}
	maps.Copy(out, desired)
	ours := map[string]any{}
	for _, key := range []string{TagTraceID, TagInitiator, TagOrigin} {
		delete(out, key)
		have, had := observed[key]
		want, wanted := next[key]
		switch {
		case accepted && wanted:
			ours[key] = want
		case !accepted && had:
			ours[key] = have
		}
	}
	if len(out)+len(ours) > MaxTags {
		return none(out), fmt.Errorf("cannot add %d provenance tags to the %d that exist: AWS allows %d", len(ours), len(out), MaxTags)
	}
	maps.Copy(out, ours)
	return none(out), nil
}

func none(tags map[string]any) map[string]any {
	if len(tags) == 0 {
		return nil
	}
	return tags
}
