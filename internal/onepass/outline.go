package onepass

// Levels of the names in fieldsV1 that Outline reads.
const (
	levels       = 2
	statusLevels = 3
)

// metadata reads a field of the metadata.
func (p *parser) metadata(name string) (any, error) {
	if name != "managedFields" || p.in.PeekKind() != '[' {
		return p.value(nil, nil)
	}
	if _, err := p.in.ReadToken(); err != nil {
		return nil, err
	}
	out := []any{}
	for p.in.PeekKind() != ']' {
		e, err := p.names(p.entry)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	_, err := p.in.ReadToken() // its closing bracket
	return out, err
}

// entry reads a field of an entry of managedFields.
func (p *parser) entry(name string) (any, error) {
	if name != "fieldsV1" {
		return p.value(nil, nil)
	}
	return p.names(func(name string) (any, error) {
		if name == "f:status" {
			return p.owned(statusLevels - 1)
		}
		return p.owned(levels - 1)
	})
}

// owned reads the names of so many levels, and nothing below them.
func (p *parser) owned(levels int) (any, error) {
	if levels == 0 {
		return map[string]any{}, p.in.SkipValue()
	}
	return p.names(func(string) (any, error) { return p.owned(levels - 1) })
}

// names reads an object, whose values are read by their names. What is no object is read whole.
func (p *parser) names(read func(name string) (any, error)) (any, error) {
	if p.in.PeekKind() != '{' {
		return p.value(nil, nil)
	}
	if _, err := p.in.ReadToken(); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for {
		t, err := p.in.ReadToken()
		if err != nil || t.Kind() == '}' {
			return out, err
		}
		name := t.String()
		if out[name], err = read(name); err != nil {
			return nil, err
		}
	}
}
