package input

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate the input. It returns the first fault found, in the order in which
// the input was written.
func Validate(r *Resources) error {
	if r.APIVersion != APIVersion {
		return field.NotSupported(field.NewPath("apiVersion"), r.APIVersion, []string{APIVersion})
	}
	if r.Kind != Kind {
		return field.NotSupported(field.NewPath("kind"), r.Kind, []string{Kind})
	}
	path := field.NewPath("resources")
	if len(r.Resources) == 0 {
		return field.Required(path, "at least one resource")
	}
	seen := map[string]bool{}
	for i, t := range r.Resources {
		if seen[t.Name] {
			return field.Duplicate(path.Index(i).Child("name"), t.Name)
		}
		seen[t.Name] = true
		if err := validateTemplate(t, path.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func validateTemplate(t Template, path *field.Path) error {
	if t.Name == "" {
		return field.Required(path.Child("name"), "the template's name")
	}
	for _, k := range []string{"apiVersion", "kind"} {
		if v, ok := t.Base[k].(string); t.Base != nil && (!ok || v == "") {
			return field.Required(path.Child("base", k), "what to compose")
		}
	}
	for i, p := range t.Patches {
		if err := validatePatch(p, path.Child("patches").Index(i)); err != nil {
			return err
		}
	}
	for i, c := range t.ReadinessChecks {
		if err := validateCheck(c, path.Child("readinessChecks").Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func validateCheck(c ReadinessCheck, path *field.Path) error {
	switch c.Type {
	case CheckNone:
		return nil
	case CheckMatchCondition:
		return validateMatchCondition(c.MatchCondition, path.Child("matchCondition"))
	case CheckMatchString:
		if c.MatchString == nil {
			return field.Required(path.Child("matchString"), "the string to match")
		}
	case CheckMatchInteger:
		if c.MatchInteger == nil {
			return field.Required(path.Child("matchInteger"), "the integer to match")
		}
	case CheckNonEmpty, CheckMatchTrue, CheckMatchFalse:
	default:
		return field.NotSupported(path.Child("type"), c.Type, []CheckType{
			CheckMatchCondition, CheckMatchFalse, CheckMatchInteger, CheckMatchString, CheckMatchTrue, CheckNonEmpty, CheckNone,
		})
	}
	if c.FieldPath == nil {
		return field.Required(path.Child("fieldPath"), "the field to look at")
	}
	return validatePath(*c.FieldPath, path.Child("fieldPath"))
}

func validateMatchCondition(m *MatchCondition, path *field.Path) error {
	switch {
	case m == nil:
		return field.Required(path, "the condition to match")
	case m.Type == "":
		return field.Required(path.Child("type"), "the type of the condition")
	case m.Status == "":
		return field.Required(path.Child("status"), "the status to match")
	}
	return nil
}
