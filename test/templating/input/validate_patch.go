package input

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crossplane/crossplane-runtime/v2/pkg/fieldpath"
)

func validatePatch(p Patch, path *field.Path) error {
	switch p.Kind() {
	case PatchFromComposite, PatchToComposite:
		if p.FromFieldPath == nil || *p.FromFieldPath == "" {
			return field.Required(path.Child("fromFieldPath"), "the field to copy")
		}
		if err := validatePath(*p.FromFieldPath, path.Child("fromFieldPath")); err != nil {
			return err
		}
	case PatchCombineFromComposite:
		if p.ToFieldPath == nil {
			return field.Required(path.Child("toFieldPath"), "the field to write")
		}
		if err := validateCombine(p.Combine, path.Child("combine")); err != nil {
			return err
		}
	default:
		return field.NotSupported(path.Child("type"), p.Type, []PatchType{PatchCombineFromComposite, PatchFromComposite, PatchToComposite})
	}
	if err := validatePath(p.To(), path.Child("toFieldPath")); err != nil {
		return err
	}
	for i, t := range p.Transforms {
		if err := validateTransform(t, path.Child("transforms").Index(i)); err != nil {
			return err
		}
	}
	return validatePolicy(p.Policy, path.Child("policy"))
}

func validatePolicy(p *Policy, path *field.Path) error {
	if p == nil || p.FromFieldPath == "" || p.FromFieldPath == FromOptional || p.FromFieldPath == FromRequired {
		return nil
	}
	return field.NotSupported(path.Child("fromFieldPath"), p.FromFieldPath, []FromPolicy{FromOptional, FromRequired})
}

func validateCombine(c *Combine, path *field.Path) error {
	switch {
	case c == nil:
		return field.Required(path, "what to combine")
	case c.Strategy != CombineString:
		return field.NotSupported(path.Child("strategy"), c.Strategy, []string{CombineString})
	case c.String == nil:
		return field.Required(path.Child("string"), "the format to combine with")
	case len(c.Variables) == 0:
		return field.Required(path.Child("variables"), "at least one variable")
	}
	for i, v := range c.Variables {
		if err := validatePath(v.FromFieldPath, path.Child("variables").Index(i).Child("fromFieldPath")); err != nil {
			return err
		}
	}
	return nil
}

func validatePath(p string, path *field.Path) error {
	if p == "" {
		return field.Required(path, "a field path")
	}
	if _, err := fieldpath.Parse(p); err != nil {
		return field.Invalid(path, p, err.Error())
	}
	return nil
}

func validateTransform(t Transform, path *field.Path) error {
	switch t.Type {
	case TransformMap:
		if len(t.Map) == 0 {
			return field.Required(path.Child("map"), "at least one pair")
		}
	case TransformMath:
		return validateMath(t.Math, path.Child("math"))
	case TransformString:
		return validateString(t.String, path.Child("string"))
	case TransformConvert:
		return validateConvert(t.Convert, path.Child("convert"))
	default:
		return field.NotSupported(path.Child("type"), t.Type, []TransformType{TransformConvert, TransformMap, TransformMath, TransformString})
	}
	return nil
}

func validateMath(m *Math, path *field.Path) error {
	switch {
	case m == nil:
		return field.Required(path, "what to calculate")
	case m.Type != MathMultiply: // The original has no default for it either.
		return field.NotSupported(path.Child("type"), m.Type, []string{MathMultiply})
	case m.Multiply == nil:
		return field.Required(path.Child("multiply"), "the factor")
	}
	return nil
}

func validateString(s *String, path *field.Path) error {
	switch {
	case s == nil:
		return field.Required(path, "how to format")
	case s.Type != StringFormat: // The original has no default for it either.
		return field.NotSupported(path.Child("type"), s.Type, []string{StringFormat})
	case s.Format == nil:
		return field.Required(path.Child("fmt"), "the format")
	}
	return nil
}

func validateConvert(c *Convert, path *field.Path) error {
	if c == nil {
		return field.Required(path, "the type to convert to")
	}
	switch c.ToType {
	case ValueString, ValueBool, ValueInt, ValueInt64, ValueFloat64:
		return nil
	}
	return field.NotSupported(path.Child("toType"), c.ToType, []ValueType{ValueBool, ValueFloat64, ValueInt, ValueInt64, ValueString})
}
