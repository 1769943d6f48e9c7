package terminal

import (
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

// look is how a line is shown where the terminal has colours; none depends on it.
type look int

const (
	lookPlain look = iota
	// lookTitle of a screen or a section, lookStrong of what is to be opened, lookFaint of what is beside it.
	lookTitle
	lookStrong
	lookFaint
	// lookField of values, lookChanged of lines of a value that the other one does not have.
	lookField
	lookChanged
	// lookGood and lookBad of what is well, and of what is not.
	lookGood
	lookBad
)

// line of a screen: safe text that is wrapped to the width, all but its first row with a deeper indent.
type line struct {
	text   string
	look   look
	indent int
	// cut: it is cut to the width, not wrapped, as rows of columns are.
	cut bool
	// to is where it leads; nil for nowhere.
	to *place
}

// place is what a screen shows: what waits, or a part of it.
type place struct {
	kind kind
	// cause is the key of a cause.
	cause string
	// namespace and id of a change.
	namespace, id string
	// ref to an object, and for a confirmation without a change, what it is about.
	ref v1alpha1.ObjectReference
	// action to confirm.
	action channel.Action
}

// kind of a place.
type kind int

const (
	kindCauses kind = iota
	kindCause
	kindChange
	kindObject
	kindCoverage
	kindConfirm
	kindHelp
)

// toChange returns the place of a change.
func toChange(d *v1alpha1.Drift) *place {
	return &place{kind: kindChange, namespace: d.Namespace, id: d.Name}
}

// toObject returns the place of an object; nil for one without a name.
func toObject(o v1alpha1.ObjectReference) *place {
	if o.Name == "" {
		return nil
	}
	o.UID, o.Resource = "", ""
	return &place{kind: kindObject, ref: o}
}

// sheet of lines that is built from top to bottom.
type sheet struct{ lines []line }

// put puts a line whose text is safe.
func (p *sheet) put(l line) *sheet {
	p.lines = append(p.lines, l)
	return p
}

// add adds a line; none for no text.
func (p *sheet) add(l look, indent int, text string) *sheet {
	if text == "" {
		return p
	}
	return p.put(line{text: safe(text), look: l, indent: indent})
}

// all lines, each indented.
func (p *sheet) all(l look, indent int, texts []string) *sheet {
	for _, t := range texts {
		p.add(l, indent, t)
	}
	return p
}

// link is a line that leads to a place.
func (p *sheet) link(to *place, l look, indent int, text string) {
	p.put(line{text: safe(text), look: l, indent: indent, to: to})
}

// section begins, after an empty line.
func (p *sheet) section(title string) *sheet {
	if len(p.lines) > 0 {
		p.put(line{})
	}
	return p.add(lookTitle, 0, title)
}
