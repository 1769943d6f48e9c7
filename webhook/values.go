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
// counts. It reads every byte once.
func values(raw []byte) (map[string]any, error) {
	p := parser{in: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	v, err := p.value()
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
	in *jsontext.Decoder
	// members of objects and items of lists that are not read to their end, so
	// that each is made once, as large as it is.
	members []member
	items   []any
}

type member struct {
	name  string
	value any
}

func (p *parser) value() (any, error) {
	t, err := p.in.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '{':
		return p.object()
	case '[':
		return p.list()
	case '"':
		return t.String(), nil
	case '0':
		return number(t.String())
	case 't', 'f':
		return t.Bool(), nil
	}
	return nil, nil //nolint:nilnil // A null.
}

func (p *parser) object() (any, error) {
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
		v, err := p.value()
		if err != nil {
			return nil, err
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

func (p *parser) list() (any, error) {
	first := len(p.items)
	for p.in.PeekKind() != ']' {
		v, err := p.value()
		if err != nil {
			return nil, err
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
