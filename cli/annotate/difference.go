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
)

// ErrMoved is the error of an edit by AsShown whose annotation became another
// one, so that it would do something else than was shown.
var ErrMoved = errors.New("it was changed meanwhile, and would become something else than was shown; nothing was written, look again")

// Difference is one line of what a change of an annotation does: the value, or
// one entry of a list, before and after it; "" where there is none. What is YAML
// or JSON in them is in one form.
type Difference struct{ Before, After string }

// none is how a value that is not there reads.
const none = "none"

// String is before → after on one line, for people: cut where it is long, and
// without what a terminal would take for a command.
func (d Difference) String() string { return short(d.Before) + " → " + short(d.After) }

// Differences of a change, none where it changes nothing. Of a list they are the
// entries that go and those that come, in this order; those of others, which
// stay, are not among them.
func (c Change) Differences() []Difference {
	if c.Unchanged {
		return nil
	}
	was, lists := entries(c.Before)
	is, too := entries(c.After)
	if !lists || !too {
		return []Difference{{readable(c.Before), readable(c.After)}}
	}
	var out []Difference
	for _, e := range without(was, is) {
		out = append(out, Difference{Before: e})
	}
	for _, e := range without(is, was) {
		out = append(out, Difference{After: e})
	}
	if len(out) == 0 { // only written differently
		out = append(out, Difference{readable(c.Before), readable(c.After)})
	}
	return out
}

// AsShown is an edit that does what a change that was made from it before did,
// and nothing else: where somebody else wrote the annotation meanwhile so that
// other entries would come or go, the error is ErrMoved. That it stands there
// already is none.
func AsShown(shown Change, edit Edit) Edit {
	return func(annotations map[string]string) (*string, error) {
		now, err := change(annotations, shown.Key, edit)
		if err != nil {
			return nil, err
		}
		if !now.Unchanged && !slices.Equal(now.Differences(), shown.Differences()) {
			return nil, ErrMoved
		}
		return now.After, nil
	}
}

// entries of a list, in one form; none at all are a list too.
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

// without those of a list that are in another, as often as they are there.
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

// readable value: what is written in several lines or with a layout of its own
// becomes JSON.
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

func encode(v any) (string, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(out.String()), err
}

// longest is how many characters of a value are shown.
const longest = 400

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
