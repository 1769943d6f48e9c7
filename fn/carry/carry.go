package carry

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/external"
)

// WithTags returns a function that puts the next tags into a field, in place of earlier ones; see external.WithTags.
func WithTags(next map[string]string) func(desired, observed any, accepted bool) (any, error) {
	return func(desired, observed any, accepted bool) (any, error) {
		d, _ := desired.(map[string]any)
		o, _ := observed.(map[string]any)
		tags, err := external.WithTags(d, o, next, accepted)
		switch {
		case tags != nil:
			return tags, err
		case desired != nil:
			return map[string]any{}, err
		}
		return nil, err
	}
}

// HasTags reports whether a field has tags that WithTags would remove.
func HasTags(value any) bool {
	tags, _ := value.(map[string]any)
	others, _ := external.WithTags(tags, nil, nil, false)
	return len(others) < len(tags)
}

// WithEnv returns a function that puts the next variables into a field, in place of earlier ones; see external.WithEnv.
func WithEnv(next []external.Variable) func(desired, observed any, accepted bool) (any, error) {
	return func(desired, observed any, accepted bool) (any, error) {
		d, _ := desired.([]any)
		o, _ := observed.([]any)
		env := external.WithEnv(d, o, next, accepted)
		if env == nil && desired == nil {
			return nil, nil //nolint:nilnil // No field is no error.
		}
		return slices.Concat([]any{}, env), nil
	}
}

// HasEnv reports whether a field has variables that WithEnv would remove.
func HasEnv(value any) bool {
	env, _ := value.([]any)
	return len(external.WithEnv(env, nil, nil, true)) < len(env)
}
