package pt

import (
	"fmt"
	"strconv"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"

	"github.com/kausality-io/function-kausality/test/templating/input"
)

// transform a value. The transform has been validated.
func transform(t input.Transform, v any) (any, error) {
	switch t.Type {
	case input.TransformMap:
		return lookUp(t.Map, v)
	case input.TransformMath:
		return multiply(*t.Math.Multiply, v)
	case input.TransformString:
		return fmt.Sprintf(*t.String.Format, v), nil
	case input.TransformConvert:
		return convert(t.Convert.ToType, v)
	}
	return nil, errors.Errorf("cannot transform: unknown type %q", t.Type)
}

func lookUp(pairs map[string]any, v any) (any, error) {
	key, ok := v.(string)
	if !ok {
		return nil, errors.Errorf("cannot look up a %T: the key must be a string", v)
	}
	out, ok := pairs[key]
	if !ok {
		return nil, errors.Errorf("cannot look up %q: not in the map", key)
	}
	return out, nil
}

func multiply(factor int64, v any) (any, error) {
	switch n := v.(type) {
	case int64:
		return n * factor, nil
	case float64:
		return n * float64(factor), nil
	}
	return nil, errors.Errorf("cannot multiply a %T", v)
}

// convert between scalar types, as the original's conversions of format none.
func convert(to input.ValueType, v any) (any, error) {
	if to == input.ValueInt {
		to = input.ValueInt64
	}
	switch n := v.(type) {
	case string:
		return fromString(to, n)
	case int64:
		return fromInt(to, n)
	case float64:
		return fromFloat(to, n)
	case bool:
		return fromBool(to, n)
	}
	return nil, errors.Errorf("cannot convert a %T", v)
}

func fromString(to input.ValueType, v string) (any, error) {
	switch to {
	case input.ValueInt64, input.ValueInt:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, errors.Wrap(err, "cannot convert to int64")
	case input.ValueFloat64:
		n, err := strconv.ParseFloat(v, 64)
		return n, errors.Wrap(err, "cannot convert to float64")
	case input.ValueBool:
		b, err := strconv.ParseBool(v)
		return b, errors.Wrap(err, "cannot convert to bool")
	case input.ValueString:
	}
	return v, nil
}

func fromInt(to input.ValueType, v int64) (any, error) {
	switch to {
	case input.ValueString:
		return strconv.FormatInt(v, 10), nil
	case input.ValueFloat64:
		return float64(v), nil
	case input.ValueBool:
		return v == 1, nil
	case input.ValueInt64, input.ValueInt:
	}
	return v, nil
}

func fromFloat(to input.ValueType, v float64) (any, error) {
	switch to {
	case input.ValueString:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case input.ValueInt64, input.ValueInt:
		return int64(v), nil
	case input.ValueBool:
		return v == 1, nil
	case input.ValueFloat64:
	}
	return v, nil
}

func fromBool(to input.ValueType, v bool) (any, error) {
	n := int64(0)
	if v {
		n = 1
	}
	switch to {
	case input.ValueString:
		return strconv.FormatBool(v), nil
	case input.ValueInt64, input.ValueInt:
		return n, nil
	case input.ValueFloat64:
		return float64(n), nil
	case input.ValueBool:
	}
	return v, nil
}
