package pt

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/fieldpath"

	"github.com/kausality-io/function-kausality/test/templating/input"
)

// apply a patch. The error is a fieldpath.IsNotFound if the source does not
// exist; the destination is then unchanged.
func apply(p input.Patch, from, to map[string]any) error {
	v, err := source(p, fieldpath.Pave(from))
	if err != nil {
		return err
	}
	for i, t := range p.Transforms {
		if v, err = transform(t, v); err != nil {
			return errors.Wrapf(err, "%s transform at index %d", t.Type, i)
		}
	}
	if v, err = plain(v); err != nil {
		return err
	}
	return set(fieldpath.Pave(to), p.To(), v)
}

// source reads the value to copy.
func source(p input.Patch, from *fieldpath.Paved) (any, error) {
	if p.Kind() != input.PatchCombineFromComposite {
		return from.GetValue(*p.FromFieldPath)
	}
	vars := make([]any, len(p.Combine.Variables))
	for i, v := range p.Combine.Variables {
		value, err := from.GetValue(v.FromFieldPath)
		if err != nil {
			return nil, err
		}
		vars[i] = value
	}
	return fmt.Sprintf(p.Combine.String.Format, vars...), nil
}

// set the value at a path, or at each path that a wildcard stands for.
func set(to *fieldpath.Paved, path string, v any) error {
	paths := []string{path}
	if strings.Contains(path, "[*]") {
		expanded, err := to.ExpandWildcards(path)
		if err != nil {
			return destination(err, path)
		}
		if len(expanded) == 0 {
			return errors.Errorf("cannot write %s: nothing matches it", path)
		}
		paths = expanded
	}
	for _, p := range paths {
		if err := to.SetValue(p, v); err != nil {
			return destination(err, p)
		}
	}
	return nil
}

// destination hides that an error is a fieldpath.IsNotFound: only a missing
// source may be skipped.
func destination(err error, path string) error {
	return errors.Errorf("cannot write %s: %s", path, err)
}

// plain gives the value the types that a JSON decoder would, so that the
// source and the destination share no memory.
func plain(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, errors.Wrap(err, "cannot encode value")
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, errors.Wrap(err, "cannot decode value")
	}
	return whole(out), nil
}
