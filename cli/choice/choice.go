package choice

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kausality-io/function-kausality/internal/lists"
)

// Flag accepts some of a fixed set of values.
type Flag struct {
	// listed are the values, each with what help adds about it in parentheses.
	listed []string
	// def is the default, which is accepted even where it is not listed.
	def string
	// many values may be given, separated by commas or in repeated flags.
	many bool
	get  func() string
	set  func(value string)
}

// One returns a flag for one of several values. A value may be followed by what help adds about it, as in "client (send
// nothing)".
func One[T ~string](to *T, def T, values ...T) *Flag {
	*to = def
	return &Flag{listed: texts(values), def: string(def), get: func() string { return string(*to) }, set: func(v string) { *to = T(v) }}
}

// Some returns a flag for any of several values; by default there are none.
func Some[T ~string](to *[]T, values ...T) *Flag {
	return &Flag{listed: texts(values), many: true,
		get: func() string { return strings.Join(texts(*to), ",") }, set: func(v string) { *to = append(*to, T(v)) }}
}

func texts[T ~string](values []T) []string {
	return lists.Map(values, func(v T) string { return string(v) })
}

// Values returns the values that are accepted.
func (f *Flag) Values() []string {
	return lists.Map(f.listed, func(v string) string {
		name, _, _ := strings.Cut(v, " (")
		return name
	})
}

// List returns the values for help, as in "a, b (what it does) or c".
func (f *Flag) List() string { return list(f.listed) }

func list(values []string) string {
	last := len(values) - 1
	return strings.TrimPrefix(strings.Join(values[:last], ", ")+" or "+values[last], " or ")
}

// Set sets the value; an error where it is not accepted.
func (f *Flag) Set(value string) error {
	given := []string{value}
	if f.many {
		given = strings.Split(value, ",")
	}
	accepted := f.Values()
	for _, v := range given {
		if !slices.Contains(accepted, v) && (f.many || v != f.def) {
			return refusedError{fmt.Sprintf("must be %s, not %q", list(accepted), v)}
		}
		f.set(v)
	}
	return nil
}

// String returns the value as it would be given.
func (f *Flag) String() string { return f.get() }

// Type returns the type of the flag, as pflag names its own.
func (f *Flag) Type() string {
	if f.many {
		return "strings"
	}
	return "string"
}

// refusedError is that of a value that is not accepted: a clause about the flag.
type refusedError struct{ text string }

// Error returns the clause.
func (e refusedError) Error() string { return e.text }

// Of returns the values of a flag; nil for one that is no choice.
func Of(f *pflag.Flag) []string {
	if c, ok := f.Value.(*Flag); ok {
		return c.Values()
	}
	return nil
}

// Explain returns an error of parsing flags as a sentence of the flag and its values, where it is about a choice.
func Explain(err error) error {
	invalid, refused := &pflag.InvalidValueError{}, refusedError{}
	if errors.As(err, &invalid) && errors.As(err, &refused) {
		return fmt.Errorf("--%s %w", invalid.GetFlag().Name, refused)
	}
	return err
}
