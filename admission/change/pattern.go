package change

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/crossplane/crossplane-runtime/v2/pkg/fieldpath"
)

// Segment of a path: an item of a list where Item is true, by its Index, else a
// Key of a map.
type Segment struct {
	Key   string
	Index int
	Item  bool
}

// Any is how a pattern writes any index or key: [*].
const Any = "*"

// Pattern of paths, as policies write it: spec.template.spec.containers[*].image
// or metadata.annotations[jira]. Keys with dots are in brackets, with or
// without quotes; [*] is any index or key; "*" alone is every field. The zero
// Pattern matches nothing. It is not modified after ParsePattern, and safe for
// concurrent use.
type Pattern struct {
	text     string
	segments []patternSegment
}

// patternSegment is a Segment, or any index or key.
type patternSegment struct {
	Segment
	any bool
}

// ParsePattern reads a pattern. The error names the byte, counted from 0, at
// which it is invalid. The syntax is that of Crossplane's field paths; beyond it a
// pattern is refused that is most likely a mistake: an empty one, a bracket
// that is followed by a name without a period, and a quote that is not closed (KR-06-02).
func ParsePattern(text string) (Pattern, error) {
	if text == "" {
		return Pattern{}, errors.New("a path is empty; to mean every field write \"*\"")
	}
	segments, err := fieldpath.Parse(text)
	if err != nil {
		return Pattern{}, fmt.Errorf("path %q: %w", text, err)
	}
	if err := checkPattern(text); err != nil {
		return Pattern{}, fmt.Errorf("path %q: %w", text, err)
	}
	p := Pattern{text: text, segments: make([]patternSegment, 0, len(segments))}
	for _, s := range segments {
		switch {
		case s.Type == fieldpath.SegmentIndex:
			p.segments = append(p.segments, patternSegment{Segment: Segment{Index: int(s.Index), Item: true}})
		case s.Field == Any:
			p.segments = append(p.segments, patternSegment{any: true})
		default:
			p.segments = append(p.segments, patternSegment{Segment: Segment{Key: s.Field}})
		}
	}
	return p, nil
}

// PatternOf returns the pattern of a path: it covers that path and everything below it. The key "*" is any index or
// key. It returns the zero Pattern for an empty path.
func PatternOf(path []Segment) Pattern {
	if len(path) == 0 {
		return Pattern{}
	}
	p := Pattern{text: Text(path), segments: make([]patternSegment, 0, len(path))}
	for _, s := range path {
		if s == (Segment{Key: Any}) {
			p.segments = append(p.segments, patternSegment{any: true})
			continue
		}
		p.segments = append(p.segments, patternSegment{Segment: s})
	}
	return p
}

// SplitPath splits a path into its segments: the inverse of Text for keys without a closing bracket. It accepts any
// text: periods separate names, brackets end with the first one that closes them, or with the text; a number in
// brackets is an index, anything else is a key. It returns nil for the empty path.
func SplitPath(path string) []Segment {
	var out []Segment
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			key, rest, _ := strings.Cut(path[1:], "]")
			out, path = append(out, inBrackets(key)), rest
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out, path = append(out, Segment{Key: path[:end]}), path[end:]
		}
	}
	return out
}

// inBrackets returns the segment for a text in brackets: an index, written as Text writes it, or a key.
func inBrackets(key string) Segment {
	if n, err := strconv.Atoi(key); err == nil && n >= 0 && strconv.Itoa(n) == key {
		return Segment{Index: n, Item: true}
	}
	return Segment{Key: key}
}

// checkPattern returns an error for mistakes that Crossplane's parser accepts.
func checkPattern(text string) error {
	for at := 0; at < len(text); {
		open := strings.IndexByte(text[at:], '[')
		if open < 0 {
			return checkName(text[at:], at)
		}
		if err := checkName(text[at:at+open], at); err != nil {
			return err
		}
		at += open
		end := at + strings.IndexByte(text[at:], ']')
		if err := checkKey(text[at+1:end], at+1); err != nil {
			return err
		}
		at = end + 1
		if at < len(text) && text[at] != '.' && text[at] != '[' {
			return fmt.Errorf("a period or a bracket is missing at position %d", at)
		}
	}
	return nil
}

// checkName validates the names of fields outside of brackets: no name has quotes.
func checkName(names string, at int) error {
	if i := strings.IndexAny(names, "'\" \t\r\n"); i >= 0 {
		return fmt.Errorf("unexpected %q at position %d; keys that are no plain names must be in brackets", names[i], at+i)
	}
	return nil
}

// checkKey validates a key in brackets: quotes come in pairs around all of it.
func checkKey(key string, at int) error {
	quoted := len(key) >= 2 && (key[0] == '\'' || key[0] == '"') && key[len(key)-1] == key[0]
	inner := key
	if quoted {
		inner = key[1 : len(key)-1]
	}
	if inner == "" {
		return fmt.Errorf("an empty key at position %d", at)
	}
	if i := strings.IndexAny(inner, "'\""); i >= 0 {
		return fmt.Errorf("a quote that is not closed at position %d", at)
	}
	return nil
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Wild reports whether the pattern has [*] anywhere, so that it can lead to more
// than one field.
func (p Pattern) Wild() bool {
	return slices.ContainsFunc(p.segments, func(s patternSegment) bool { return s.any })
}

// Outside reports whether the pattern is about no desired state: it is in
// apiVersion, kind, metadata or status, so that no change of desired state ever
// matches it.
func (p Pattern) Outside() bool {
	return len(p.segments) > 0 && !p.segments[0].any && !p.segments[0].Item && outside[p.segments[0].Key]
}

// Head returns the names at the beginning of the pattern, at most max: up to the first index or [*].
func (p Pattern) Head(max int) []string {
	var out []string
	for _, s := range p.segments[:min(max, len(p.segments))] {
		if s.any || s.Item {
			break
		}
		out = append(out, s.Key)
	}
	return out
}

// is reports whether the segment matches one of a path.
func (s patternSegment) is(at Segment) bool {
	return s.any || s.Item == at.Item && s.Index == at.Index && s.Key == at.Key
}

// Covers reports whether a path is matched by the pattern or is below a path that the pattern matches.
func (p Pattern) Covers(path []Segment) bool {
	return len(p.segments) > 0 && len(p.segments) <= len(path) && p.matches(path[:len(p.segments)])
}

// below reports whether the pattern matches paths below the given one.
func (p Pattern) below(path []Segment) bool {
	return len(p.segments) > len(path) && p.matches(path)
}

// matches reports whether the pattern begins with what matches a path, which is no longer.
func (p Pattern) matches(path []Segment) bool {
	for i := range path {
		if !p.segments[i].is(path[i]) {
			return false
		}
	}
	return true
}

// Touches reports whether a change is one of a field that the pattern matches: at or below it, or above it where the
// value that was added or removed holds it. field is the concrete path of the first such field, for traces.
func (p Pattern) Touches(c Detail) (field string, ok bool) {
	if p.Covers(c.At) {
		return c.Path, true
	}
	if !p.below(c.At) {
		return "", false
	}
	for _, side := range []any{c.New, c.Old} {
		for _, found := range (Pattern{segments: p.segments[len(c.At):]}).find(side, c.At) {
			return Text(found.At), true
		}
	}
	return "", false
}

// Found is a value that a pattern leads to.
type Found struct {
	At    []Segment
	Value any
}

// Find returns the values in an object that the pattern leads to, in the order of their paths. A field that does not
// exist is not found; a null is.
func (p Pattern) Find(content map[string]any) []Found {
	if len(p.segments) == 0 {
		return nil
	}
	return p.find(content, nil)
}

// find returns the values that the pattern leads to below a value at a place.
func (p Pattern) find(value any, at []Segment) []Found {
	if len(p.segments) == 0 {
		return []Found{{At: at, Value: value}}
	}
	s, rest := p.segments[0], Pattern{segments: p.segments[1:]}
	var out []Found
	switch v := value.(type) {
	case map[string]any:
		if !s.any && !s.Item {
			if inner, ok := v[s.Key]; ok {
				out = rest.find(inner, extend(at, s.Segment))
			}
			return out
		}
		for _, k := range sortedKeys(v) {
			if here := (Segment{Key: k}); s.is(here) {
				out = append(out, rest.find(v[k], extend(at, here))...)
			}
		}
	case []any:
		for i, inner := range v {
			if here := (Segment{Index: i, Item: true}); s.is(here) {
				out = append(out, rest.find(inner, extend(at, here))...)
			}
		}
	}
	return out
}

// extend returns a path with another segment, as a copy: siblings must not overwrite each other.
func extend(at []Segment, s Segment) []Segment {
	return append(at[:len(at):len(at)], s)
}
