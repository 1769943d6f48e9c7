package webhook

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// values of a JSON object, as k8s.io/apimachinery/pkg/util/json reads them: whole
// numbers are int64 where they fit, others float64, and the last of equal names
// counts. It reads every byte once. What is the same, byte by byte, in an
// "oldObject" as in the "object" before it is the same value: nobody may change
// either.
func values(raw []byte) (map[string]any, error) {
	p := parser{raw: raw, in: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	v, _, err := p.value(nil)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.ReadToken(); err != io.EOF { //nolint:errorlint // As it is documented.
		return nil, fmt.Errorf("there is more after the value, at byte %d", p.in.InputOffset())
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a JSON %T, want an object", v)
	}
	return m, nil
}

type parser struct {
	raw []byte
	in  *jsontext.Decoder
	// members of objects and items of lists that are not read to their end, so
	// that each is made once, as large as it is.
	members []member
	items   []any
}

type member struct {
	name  string
	value any
}

const (
	// shareable is how long an object or list is, in bytes, that is worth sharing.
	shareable = 128
	// shareDepth is how deep in a review parts are compared: two objects that differ in
	// their innermost part would be compared as often as they are deep.
	shareDepth = 32
)

// part of the first object of a review, that the second one may share.
type part struct {
	raw   []byte
	value any
	// fields of an object, items of a list; those that are shareable.
	fields map[string]*part
	items  map[int]*part
}

// value that comes next. like is what it may share; nil for nothing. own is what
// another may share of it; nil for nothing.
func (p *parser) value(like *part) (v any, own *part, err error) {
	if like != nil && p.in.StackDepth() < shareDepth && bytes.HasPrefix(bytes.TrimLeft(p.raw[p.in.InputOffset():], ":, \t\r\n"), like.raw) {
		return like.value, nil, p.in.SkipValue() // objects and lists say themselves where they end
	}
	t, err := p.in.ReadToken()
	if err != nil {
		return nil, nil, err
	}
	switch t.Kind() {
	case '{', '[':
		own = &part{}
		start := p.in.InputOffset() - 1
		if t.Kind() == '{' {
			own.value, err = p.object(like, own)
		} else {
			own.value, err = p.list(like, own)
		}
		if own.raw = p.raw[start:p.in.InputOffset()]; len(own.raw) < shareable {
			return own.value, nil, err
		}
		return own.value, own, err
	case '"':
		return t.String(), nil, nil
	case '0':
		v, err = number(t.String())
		return v, nil, err
	case 't', 'f':
		return t.Bool(), nil, nil
	}
	return nil, nil, nil // a null
}

func (p *parser) object(like, own *part) (any, error) {
	first := len(p.members)
	for {
		t, err := p.in.ReadToken()
		if err != nil {
			return nil, err
		}
		if t.Kind() == '}' {
			break
		}
		name := t.String() // before the next token takes its place
		v, field, err := p.value(own.alike(like, name))
		if err != nil {
			return nil, err
		}
		if field != nil {
			if own.fields == nil {
				own.fields = map[string]*part{}
			}
			own.fields[name] = field
		}
		p.members = append(p.members, member{name, v})
	}
	out := make(map[string]any, len(p.members)-first)
	for _, m := range p.members[first:] {
		out[m.name] = m.value
	}
	p.members = p.members[:first]
	return out, nil
}

// alike is what a field may share: the same field of the first object; all of
// that, where the field is the second.
func (o *part) alike(like *part, field string) *part {
	switch {
	case field == "oldObject":
		return o.fields["object"]
	case like == nil:
		return nil
	}
	return like.fields[field]
}

func (p *parser) list(like, own *part) (any, error) {
	first := len(p.items)
	for p.in.PeekKind() != ']' {
		var alike *part
		n := len(p.items) - first
		if like != nil {
			alike = like.items[n]
		}
		v, item, err := p.value(alike)
		if err != nil {
			return nil, err
		}
		if item != nil {
			if own.items == nil {
				own.items = map[int]*part{}
			}
			own.items[n] = item
		}
		p.items = append(p.items, v)
	}
	out := make([]any, len(p.items)-first)
	copy(out, p.items[first:])
	p.items = p.items[:first]
	_, err := p.in.ReadToken() // the end
	return out, err
}

func number(s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s: %w", s, err)
	}
	return f, nil
}
