package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Matcher of one value. A scalar in YAML must be equal; an object is one of the
// fields below.
type Matcher struct {
	Equals any `json:"equals,omitempty"`
	// Contains text.
	Contains string `json:"contains,omitempty"`
	// Matches a regular expression.
	Matches string `json:"matches,omitempty"`
	// Absent if true, present if false.
	Absent *bool `json:"absent,omitempty"`
	// Not equal.
	Not any `json:"not,omitempty"`
	// Same value as before the step.
	Same bool `json:"same,omitempty"`
	// JSON in a string: these of its fields, by path.
	JSON map[string]Matcher `json:"json,omitempty"`
	// AtLeast this number.
	AtLeast *float64 `json:"atLeast,omitempty"`
	// OlderThan: an RFC 3339 time longer ago than this.
	OlderThan *Duration `json:"olderThan,omitempty"`
}

// UnmarshalJSON reads a scalar or a list to be equal to, or an object.
func (m *Matcher) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '{' {
		if string(raw) == "null" {
			return errors.New("a matcher is missing; to expect no value use {absent: true}")
		}
		return json.Unmarshal(raw, &m.Equals)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return err
	}
	if len(keys) != 1 {
		return fmt.Errorf("a matcher has one field, not %d: %s", len(keys), raw)
	}
	type plain Matcher // without this method
	return decodeStrict(json.RawMessage(raw), (*plain)(m))
}

// value that may be absent.
type value struct {
	v     any
	there bool
}

func (v value) String() string {
	if !v.there {
		return "absent"
	}
	return text(v.v)
}

// text of a value as in YAML.
func text(v any) string {
	switch t := v.(type) {
	case string:
		return t
	case nil:
		return "null"
	case float64:
		return strconv.FormatFloat(t, 'f', -1, 64)
	case bool, int64, int:
		return fmt.Sprint(t)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// match returns how a value differs from what is expected; nil if it does not.
func (m Matcher) match(got, before value) error {
	switch {
	case m.Absent != nil:
		if got.there == *m.Absent {
			return fmt.Errorf("is %s, want absent: %t", got, *m.Absent)
		}
	case m.Same:
		if got.there != before.there || !reflect.DeepEqual(got.v, before.v) {
			return fmt.Errorf("is %s, was %s before", got, before)
		}
	case !got.there:
		return errors.New("is absent")
	case m.Contains != "":
		if !strings.Contains(text(got.v), m.Contains) {
			return fmt.Errorf("is %s, want it to contain %q", got, m.Contains)
		}
	case m.Matches != "":
		return m.regexp(text(got.v))
	case m.Not != nil:
		if text(got.v) == text(m.Not) {
			return fmt.Errorf("is %s, want anything else", got)
		}
	case m.AtLeast != nil:
		if n, err := strconv.ParseFloat(text(got.v), 64); err != nil || n < *m.AtLeast {
			return fmt.Errorf("is %s, want at least %v", got, *m.AtLeast)
		}
	case m.OlderThan != nil:
		if at, err := time.Parse(time.RFC3339, text(got.v)); err != nil || time.Since(at) <= m.OlderThan.Duration {
			return fmt.Errorf("is %s, want a time more than %s ago", got, m.OlderThan.Duration)
		}
	case m.JSON != nil:
		return m.json(text(got.v))
	case text(got.v) != text(m.Equals):
		return fmt.Errorf("is %s, want %s", got, text(m.Equals))
	}
	return nil
}

func (m Matcher) regexp(got string) error {
	re, err := regexp.Compile(m.Matches)
	if err != nil {
		return err
	}
	if !re.MatchString(got) {
		return fmt.Errorf("is %s, want it to match %s", got, m.Matches)
	}
	return nil
}

func (m Matcher) json(got string) error {
	var tree any
	if err := json.Unmarshal([]byte(got), &tree); err != nil {
		return fmt.Errorf("is not JSON: %q", got)
	}
	return matchAll(tree, nil, m.JSON)
}

// matchAll fields of a tree by their paths.
func matchAll(tree, before any, fields map[string]Matcher) error {
	var errs []error
	for path, m := range fields {
		if err := m.match(at(tree, path), at(before, path)); err != nil {
			errs = append(errs, fmt.Errorf("%s %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// segments of a path: names between dots, and numbers or names with dots in
// brackets.
var segments = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// at returns the value at a path: spec.items[0].name, metadata.labels[a.b/c].
// "len(PATH)" is the length of a list, 0 if it is absent.
func at(tree any, path string) value {
	if inner, ok := strings.CutPrefix(path, "len("); ok {
		list, _ := at(tree, strings.TrimSuffix(inner, ")")).v.([]any)
		return value{v: int64(len(list)), there: true}
	}
	for _, s := range segments.FindAllString(path, -1) {
		name := strings.Trim(s, "[]")
		switch t := tree.(type) {
		case map[string]any:
			v, ok := t[name]
			if !ok {
				return value{}
			}
			tree = v
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(t) {
				return value{}
			}
			tree = t[i]
		default:
			return value{}
		}
	}
	return value{v: tree, there: true}
}

// Text that must occur: literally, or between slashes as a regular expression.
type Text string

func (t Text) in(got string) error {
	s := string(t)
	if len(s) > 2 && strings.HasPrefix(s, "/") && strings.HasSuffix(s, "/") {
		return Matcher{Matches: s[1 : len(s)-1]}.regexp(got)
	}
	if !strings.Contains(got, s) {
		return fmt.Errorf("does not contain %q: %s", s, got)
	}
	return nil
}

// key of an annotation: below kausality.io/ if it has no slash.
func key(k string) string {
	if strings.Contains(k, "/") {
		return k
	}
	return "kausality.io/" + k
}

// match an object; before is its state before the step, nil for none.
func (l Looks) match(object, before map[string]any) error {
	var errs []error
	for k, m := range l.Annotations {
		path := "metadata.annotations[" + key(k) + "]"
		if err := m.match(at(object, path), at(before, path)); err != nil {
			errs = append(errs, fmt.Errorf("annotation %s %w", key(k), err))
		}
	}
	errs = append(errs, matchAll(object, before, l.Fields), l.trace(object))
	return errors.Join(errs...)
}

func (l Looks) trace(object map[string]any) error {
	if len(l.Trace) == 0 {
		return nil
	}
	raw, _ := at(object, "metadata.annotations[kausality.io/trace]").v.(string)
	var hops []map[string]any
	if err := json.Unmarshal([]byte(raw), &hops); err != nil {
		return fmt.Errorf("the trace is not JSON: %q", raw)
	}
	if len(hops) != len(l.Trace) {
		return fmt.Errorf("the trace has %d hops, want %d: %s", len(hops), len(l.Trace), raw)
	}
	var errs []error
	for i, want := range l.Trace {
		if err := matchAll(hops[i], nil, want); err != nil {
			errs = append(errs, fmt.Errorf("hop %d of the trace: %w", i, err))
		}
	}
	return errors.Join(errs...)
}
