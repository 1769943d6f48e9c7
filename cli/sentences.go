package cli

import (
	"errors"
	"strings"
)

// sentences is a flag that may be given several times: all of its values are kept, in their order.
type sentences string

// String returns the text.
func (s *sentences) String() string { return string(*s) }

// Type returns the type of the flag, as pflag calls a text.
func (s *sentences) Type() string { return "string" }

// Set adds a value.
func (s *sentences) Set(value string) error {
	if *s != "" && value != "" {
		value = "; " + value
	}
	*s += sentences(value)
	return nil
}

// required is a flag with a text that must not be empty.
type required string

// String returns the text.
func (r *required) String() string { return string(*r) }

// Type returns the type of the flag, as pflag calls a text.
func (r *required) Type() string { return "string" }

// Set sets the text.
func (r *required) Set(value string) error {
	if strings.TrimSpace(value) == "" {
		return errors.New("it must have a reason")
	}
	*r = required(value)
	return nil
}
