package annotate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/internal/lists"
)

// ErrMoved is the error of an edit by AsShown whose annotation has changed so that
// the edit would do something else than was shown.
var ErrMoved = errors.New("it was changed in the meantime, and the result would differ from what was shown; nothing was written, try again")

// Difference is one line of a change: the value, or one entry of a list, before
// and after it; "" where there is none. YAML and JSON are normalized.
type Difference struct{ Before, After string }

// none is shown for a missing value.
const none = "none"

// String is "before → after" on one line, truncated where it is long. Characters
// that a terminal would interpret are escaped.
func (d Difference) String() string { return short(d.Before) + " → " + short(d.After) }

// Differences returns the differences of a change; none where it changes nothing. Of a list they are the
// entries that are removed and those that are added, in this order; entries that
// stay are not among them.
func (c Change) Differences() []Difference {
	if c.Unchanged {
		return nil
	}
	was, ok := entries(c.Before)
	is, too := entries(c.After)
	if !ok || !too {
		return []Difference{{readable(c.Before), readable(c.After)}}
	}
	out := append(lists.Map(without(was, is), func(e string) Difference { return Difference{Before: e} }),
		lists.Map(without(is, was), func(e string) Difference { return Difference{After: e} })...)
	if len(out) == 0 { // only written differently
		return []Difference{{readable(c.Before), readable(c.After)}}
	}
	return out
}

// AsShown returns an edit that does exactly what the change shown did, which was made
// by the same edit before: where the annotation was written in the meantime so
// that other entries would be added or removed, the error is ErrMoved. It is no
// error where nothing is left to do.
func AsShown(shown Change, edit Edit) Edit {
	return func(annotations map[string]string) (*string, error) {
		now, err := edited(annotations, shown.Key, edit)
		if err != nil {
			return nil, err
		}
		if !now.Unchanged && !slices.Equal(now.Differences(), shown.Differences()) {
			return nil, ErrMoved
		}
		return now.After, nil
	}
}

// entries returns the entries of a list, normalized; no value is an empty list.
func entries(value *string) (list []string, ok bool) {
	if value == nil {
		return nil, true
	}
	var all []any
	if yaml.Unmarshal([]byte(*value), &all) != nil {
		return nil, false
	}
	for _, e := range all {
		s, err := encode(e)
		if err != nil {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// without returns the entries of a list that are not in another. An entry that the
// other has n times is removed n times.
func without(list, other []string) []string {
	other = slices.Clone(other)
	var out []string
	for _, e := range list {
		if i := slices.Index(other, e); i >= 0 {
			other = slices.Delete(other, i, i+1)
			continue
		}
		out = append(out, e)
	}
	return out
}

// readable value: a map becomes compact JSON, whatever its layout.
func readable(value *string) string {
	if value == nil {
		return ""
	}
	var m map[string]any
	if yaml.Unmarshal([]byte(*value), &m) == nil && m != nil {
		if s, err := encode(m); err == nil {
			return s
		}
	}
	if *value == "" {
		return `""`
	}
	return *value
}

// encode encodes a value as JSON on one line, with <, > and & as they are: a terminal
// shows it, not a browser.
func encode(v any) (string, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(out.String()), err
}

// longest is how many characters of a value are shown before it is truncated.
const longest = 400

// short returns a value as a terminal shows it: at most longest characters, and those
// that are not printable as \uXXXX, since a value may hold escape sequences.
func short(s string) string {
	if s == "" {
		return none
	}
	var out strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > longest {
			out.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, `\u%04x`, r)
	}
	return out.String()
}
