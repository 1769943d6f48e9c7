package validation

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/crossplane/function-sdk-go/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
)

// Decode decodes an Input. Unknown fields are errors: one may be a typo.
func Decode(content map[string]any) (*input.Input, error) {
	for _, at := range [][]string{{"settleGrace"}, {"gate", "deadline"}} { // the decoder's error has no path
		v, _, err := unstructured.NestedFieldNoCopy(content, at...)
		if text, ok := v.(string); err == nil && ok {
			if _, err := time.ParseDuration(text); err != nil {
				return nil, field.Invalid(field.NewPath(at[0], at[1:]...), text, `must be a duration such as "10s"`)
			}
		}
	}
	in := &input.Input{}
	raw, err := json.Marshal(content)
	if err == nil {
		var strict []error
		if strict, err = kjson.UnmarshalStrict(raw, in); err == nil {
			err = errors.Join(strict...)
		}
	}
	return in, errors.Wrap(err, "cannot read input")
}

// Input returns what is invalid in an Input.
func Input(in *input.Input) field.ErrorList {
	errs := slices.Concat(
		optional(field.NewPath("apiVersion"), in.APIVersion, input.APIVersion),
		optional(field.NewPath("kind"), in.Kind, input.Kind),
		optional(field.NewPath("mode"), in.Mode, input.ModeLog, input.ModeEnforce))
	if g := in.SettleGrace; g != nil && g.Duration < 0 {
		errs = append(errs, field.Invalid(field.NewPath("settleGrace"), g.Duration.String(), "must not be negative"))
	}
	if in.Gate != nil {
		errs = append(errs, optional(field.NewPath("gate", "managementPolicies"), in.Gate.ManagementPolicies,
			input.ManagementPoliciesWebhook, input.ManagementPoliciesManaged)...)
		errs = append(errs, validateGate(field.NewPath("gate"), &in.Gate.GateSettings)...)
	}
	for i, p := range in.SecretPaths {
		if _, err := change.ParsePattern(p); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("secretPaths").Index(i), p, err.Error()))
		}
	}
	if in.External != nil {
		for i, p := range in.External.Provenance {
			errs = append(errs, oneOf(field.NewPath("external", "provenance").Index(i), p, v1alpha1.ProvenanceAWSTags, v1alpha1.ProvenanceTerraformEnv)...)
		}
		if aws := in.External.AWS; aws != nil && aws.Session != nil {
			errs = append(errs, validateSession(field.NewPath("external", "aws", "session"), aws.Session)...)
		}
	}
	return errs
}

// validateSession requires what the session tag identifies: there is no default.
func validateSession(at *field.Path, s *input.AWSSession) field.ErrorList {
	if s.Per == "" {
		return field.ErrorList{field.Required(at.Child("per"), "must be XR, Namespace or Claim")}
	}
	return oneOf(at.Child("per"), s.Per, input.AWSSessionPerXR, input.AWSSessionPerNamespace, input.AWSSessionPerClaim)
}

// Bounds of a deadline, as in the schema of Kausality policies.
const minDeadline, maxDeadline = time.Minute, 168 * time.Hour

// validateGate validates the settings of the gate as the schema of Kausality policies does.
func validateGate(at *field.Path, g *v1alpha1.GateSettings) (errs field.ErrorList) {
	if c := g.Closed; len(c) > 0 && !slices.Equal(c, []v1alpha1.Verb{v1alpha1.VerbObserve}) &&
		!slices.Equal(c, []v1alpha1.Verb{v1alpha1.VerbObserve, v1alpha1.VerbLateInitialize}) {
		errs = append(errs, field.Invalid(at.Child("closed"), c, "must be [Observe] or [Observe, LateInitialize]"))
	}
	if d := g.Deadline; d != nil && (d.Duration < minDeadline || d.Duration > maxDeadline) {
		errs = append(errs, field.Invalid(at.Child("deadline"), d.Duration.String(), "must be between 1m and 168h"))
	}
	for i, p := range g.IgnorePaths {
		pattern, err := change.ParsePattern(p)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at.Child("ignorePaths").Index(i), p, err.Error()))
		case !slices.Equal(pattern.Head(2), []string{"spec", "forProvider"}) || p == "spec.forProvider":
			errs = append(errs, field.Invalid(at.Child("ignorePaths").Index(i), p, "must be below spec.forProvider"))
		}
	}
	return errs
}

// optional requires one of the allowed values, as oneOf, of a field that may be empty.
func optional[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if value == "" {
		return nil
	}
	return oneOf(at, value, allowed...)
}

// oneOf requires one of the allowed values.
func oneOf[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}
