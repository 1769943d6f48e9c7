package onepass

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Object returns what k8s.io/apimachinery/pkg/util/json reads of a JSON object: whole numbers are int64 if they fit,
// others float64, and the last of equal names counts. It reads every byte once.
func Object(raw []byte) (map[string]any, error) { return values(raw, parser{}) }

// Outline is Object without the inner names of managedFields, which are much of an object and which no summary of it has: of fieldsV1 it
// reads the names of two levels ("f:spec", "f:size"), and of f:status those of three, which name conditions. What follows the object in an
// event is not read.
func Outline(raw []byte) (map[string]any, error) { return values(raw, parser{outline: true}) }

// Review is Object for an AdmissionReview. Parts of an "oldObject" that are byte for byte the same in the
// "object" before it are the same value, as are all objects without fields, so that none may be modified.
// docs/design/0008-reading-reviews.md has what that saves. A review is nested deeper than the objects in it, which
// may be as deep as the decoder reads: see deep.
func Review(raw []byte) (map[string]any, error) {
	m, err := values(raw, parser{shared: true})
	if err != nil {
		if read, ok := deep(raw); ok {
			return read, nil
		}
	}
	return m, err
}

// values of an object, read by p.
func values(raw []byte, p parser) (map[string]any, error) {
	p.reading = lists.Get().(*reading) //nolint:forcetypeassert // lists has nothing else.
	defer p.release()
	p.raw, p.in = raw, jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := p.value(nil, nil)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.ReadToken(); err != io.EOF && !p.outline { //nolint:errorlint // ReadToken returns it unwrapped.
		return nil, fmt.Errorf("unexpected data after the value, at byte %d", p.in.InputOffset())
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a JSON %T, want an object", v)
	}
	return m, nil
}

// parser of one object.
type parser struct {
	raw []byte
	// shared is true for a review, outline for the object of an event.
	shared, outline bool
	in              *jsontext.Decoder
	*reading
	// empty is the one object without fields: managedFields have very many.
	empty map[string]any
}

type member struct {
	name  string
	value any
}

// reading has the members of objects and items of lists that are being read: each map and slice is allocated once, in its final size.
type reading struct {
	members []member
	items   []any
}

// lists are used again: together they are as large as what is read.
var lists = sync.Pool{New: func() any { return &reading{} }}

// maxReading bounds what is kept for the next object, in members and items.
const maxReading = 1024

// release the lists, without what they refer to.
func (r *reading) release() {
	if cap(r.members) > maxReading || cap(r.items) > maxReading {
		return
	}
	clear(r.members[:cap(r.members)])
	clear(r.items[:cap(r.items)])
	r.members, r.items = r.members[:0], r.items[:0]
	lists.Put(r)
}

const (
	// shareable is the length of an object or list, in bytes, from which on it is shared.
	shareable = 128
	// shareDepth is the depth in a review down to which parts are compared. Two objects that differ in
	// their innermost part would otherwise be compared once per level.
	shareDepth = 32
)

// part of the first object of a review, an object or list, that the second one may share.
type part struct {
	raw   []byte
	value any
	// fields of an object, items of a list: the shareable ones.
	fields map[string]part
	items  map[int]part
}

// value reads the next value. like is what it may share, nil for nothing; own, unless it is nil, is filled
// with what another may share of it.
func (p *parser) value(like, own *part) (any, error) {
	if like != nil && p.in.StackDepth() < shareDepth && bytes.HasPrefix(bytes.TrimLeft(p.raw[p.in.InputOffset():], ":, \t\r\n"), like.raw) {
		return like.value, p.in.SkipValue() // an object or list has its end in its bytes
	}
	t, err := p.in.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '{', '[':
		start := p.in.InputOffset() - 1
		var v any
		if t.Kind() == '{' {
			v, err = p.object(like, own)
		} else {
			v, err = p.list(like, own)
		}
		if own != nil {
			own.raw, own.value = p.raw[start:p.in.InputOffset()], v
		}
		return v, err
	case '"':
		return t.String(), nil
	case '0':
		return number(t.String())
	case 't', 'f':
		return t.Bool(), nil
	}
	return nil, nil // a null
}

// object reads the fields of an object, after its opening brace.
func (p *parser) object(like, own *part) (any, error) {
	first := len(p.members)
	var object part // of the field "object"
	for {
		t, err := p.in.ReadToken()
		if err != nil {
			return nil, err
		}
		if t.Kind() == '}' {
			break
		}
		m := member{name: t.String()} // copied before the next token is read
		if m.value, err = p.field(m.name, like, own, &object); err != nil {
			return nil, err
		}
		p.members = append(p.members, m)
	}
	if len(p.members) == first && p.shared {
		if p.empty == nil {
			p.empty = map[string]any{}
		}
		return p.empty, nil
	}
	out := make(map[string]any, len(p.members)-first)
	for _, m := range p.members[first:] {
		out[m.name] = m.value
	}
	p.members = p.members[:first]
	return out, nil
}

// field reads the value of a field. object is that of the field "object" of a review.
func (p *parser) field(name string, like, own, object *part) (any, error) {
	switch {
	case like != nil:
		return p.similar(like.fields[name])
	case own != nil && p.composite():
		var field part
		v, err := p.value(nil, &field)
		if len(field.raw) >= shareable {
			if own.fields == nil {
				own.fields = map[string]part{}
			}
			own.fields[name] = field
		}
		return v, err
	case p.outline && name == "metadata" && p.in.StackDepth() == 1:
		return p.names(p.metadata)
	case own != nil || !p.shared:
		return p.value(nil, nil)
	case name == "object":
		return p.value(nil, object)
	case name == "oldObject":
		return p.similar(*object)
	}
	return p.value(nil, nil)
}

// composite reports whether the next value is an object or a list.
func (p *parser) composite() bool {
	k := p.in.PeekKind()
	return k == '{' || k == '['
}

// similar reads the next value, which may share a part.
func (p *parser) similar(like part) (any, error) {
	if like.raw == nil {
		return p.value(nil, nil)
	}
	return p.value(&like, nil)
}

// list reads the items of a list, after its opening bracket.
func (p *parser) list(like, own *part) (any, error) {
	first := len(p.items)
	for p.in.PeekKind() != ']' {
		var v any
		var err error
		switch n := len(p.items) - first; {
		case like != nil:
			v, err = p.similar(like.items[n])
		case own != nil && p.composite():
			var item part
			if v, err = p.value(nil, &item); len(item.raw) >= shareable {
				if own.items == nil {
					own.items = map[int]part{}
				}
				own.items[n] = item
			}
		default:
			v, err = p.value(nil, nil)
		}
		if err != nil {
			return nil, err
		}
		p.items = append(p.items, v)
	}
	out := make([]any, len(p.items)-first)
	copy(out, p.items[first:])
	p.items = p.items[:first]
	_, err := p.in.ReadToken() // its closing bracket
	return out, err
}

// number returns an int64 or a float64.
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
