package annotation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	goyaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// MaxUser is the size of the largest annotation that a user writes, in bytes: a
// few hundred approvals.
const MaxUser = 16 << 10

// MaxSystem is the size of the largest annotation that Kausality writes, in
// bytes: the API server accepts no more for all annotations of an object
// (TotalAnnotationSizeLimitB of k8s.io/apimachinery).
const MaxSystem = 256 << 10

// maxNesting is how many lists and objects may contain each other.
const maxNesting = 64

// maxEcho is how much of an error is repeated to the client, in bytes. Decoders
// quote the value.
const maxEcho = 200

// Unmarshal decodes a JSON or YAML value of at most limit bytes into a zero value. JSON is tried first: programs
// write it, and it takes a tenth of the time. The error is one line.
func Unmarshal[T any](value string, limit int, into *T) error {
	if err := Fits(value, limit); err != nil {
		return err
	}
	if shallow(value) && json.Unmarshal([]byte(value), into) == nil {
		return nil
	}
	*into = *new(T) // of which the failure may have left a part
	if err := Check(value, limit); err != nil {
		return err
	}
	return Brief(yaml.Unmarshal([]byte(value), into))
}

// ToJSON converts a JSON or YAML value of at most limit bytes. The error is one
// line.
func ToJSON(value string, limit int) ([]byte, error) {
	if err := Check(value, limit); err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSON([]byte(value))
	return raw, Brief(err)
}

// Check validates that decoding a value takes memory and stack in proportion to its size.
func Check(value string, limit int) error {
	if err := Fits(value, limit); err != nil {
		return err
	}
	var document goyaml.Node
	if err := goyaml.Unmarshal([]byte(value), &document); err != nil {
		return Brief(err)
	}
	return check(&document, 0)
}

// Fits reports a value of more than limit bytes as an error.
func Fits(value string, limit int) error {
	if len(value) > limit {
		return fmt.Errorf("%d bytes are too large: at most %d are read", len(value), limit)
	}
	return nil
}

// shallow reports whether JSON is nested no deeper than maxNesting.
func shallow(value string) bool {
	depth, text := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[', c == '{':
			if depth++; depth > maxNesting {
				return false
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return true
}

// HasOnly reports whether a value is JSON in which the objects at a depth have no keys but these, without escapes.
// The document has depth 1. It is false for YAML.
func HasOnly(value string, depth int, keys sets.Set[string]) bool {
	if !json.Valid([]byte(value)) {
		return false
	}
	at := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '[', '{':
			at++
		case ']', '}':
			at--
		case '"':
			begin := i + 1
			for i = begin; value[i] != '"'; i++ {
				if value[i] == '\\' {
					i++
				}
			}
			isKey := strings.HasPrefix(strings.TrimLeft(value[i+1:], " \t\r\n"), ":")
			if at == depth && isKey && !keys.Has(value[begin:i]) {
				return false
			}
		}
	}
	return true
}

// check validates a node of YAML that is depth levels below the document.
func check(n *goyaml.Node, depth int) error {
	switch {
	case n.Kind == goyaml.AliasNode || n.Anchor != "":
		return errors.New("YAML anchors and aliases (& and *) are not read; repeat the value, or quote it")
	case depth > maxNesting:
		return fmt.Errorf("lists and objects are nested deeper than %d", maxNesting)
	}
	for _, c := range n.Content {
		if err := check(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// Brief returns the error of a decoder on one line, cut where it repeats more of the value than a message should. It
// returns nil for nil.
func Brief(err error) error {
	if err == nil {
		return nil
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxEcho {
		text = strings.ToValidUTF8(text[:maxEcho], "") + "…"
	}
	return errors.New(text)
}

// Cut cuts a text to a number of bytes of valid UTF-8.
func Cut(s string, size int) string {
	s = strings.ToValidUTF8(s, "")
	for len(s) > size {
		_, last := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-last]
	}
	return s
}

// Apply returns a copy of annotations with edits; an edit to nil removes its key.
func Apply(annotations map[string]string, edits map[string]*string) map[string]string {
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range edits {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}
