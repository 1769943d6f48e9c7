package fn

import (
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/crossplane/function-sdk-go/errors"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Defaults of an Input that gives none.
const (
	defaultSettleGrace    = 10 * time.Second
	defaultServiceAccount = "system:serviceaccount:crossplane-system:crossplane"
)

// config is a validated Input with its defaults.
type config struct {
	mode  v1alpha1.Mode
	grace time.Duration
	// managed: the function masks spec.managementPolicies itself.
	managed bool
	// policies of the Input, compiled.
	policies []policy
	upgrades []*allowance.Upgrade
	// crossplane is the user name under which Crossplane writes.
	crossplane string
	// fetch the policies of the cluster with these labels.
	fetch  bool
	labels map[string]string
	// tags of AWS, and environment of Terraform runs, say who caused a change.
	tags, env bool
}

// configOf reads an Input, nil for none. The error names the field that is
// wrong (KR-09-01).
func configOf(s *structpb.Struct) (config, error) {
	cfg := config{mode: v1alpha1.ModeLog, grace: defaultSettleGrace, crossplane: defaultServiceAccount}
	if s == nil {
		return cfg, nil
	}
	content := ssa.Object(s)
	if v, ok := content["settleGrace"].(string); ok {
		if _, err := time.ParseDuration(v); err != nil { // the decoder's error has no path
			return cfg, field.Invalid(field.NewPath("settleGrace"), v, `must be a duration such as "10s"`)
		}
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return cfg, errors.Wrap(err, "cannot read input")
	}
	in := &input.Input{}
	strict, err := kjson.UnmarshalStrict(raw, in)
	if err != nil {
		return cfg, errors.Wrap(err, "cannot read input")
	}
	if len(strict) > 0 {
		return cfg, errors.Wrap(errors.Join(strict...), "cannot read input")
	}
	if err := validate(in).ToAggregate(); err != nil {
		return cfg, err
	}
	if cfg.policies, err = compile(in.Policies); err != nil {
		return cfg, err
	}
	if cfg.upgrades, err = compileUpgrades(in.Upgrades); err != nil {
		return cfg, err
	}
	return cfg.with(in), nil
}

func (c config) with(in *input.Input) config {
	if in.Mode != "" {
		c.mode = v1alpha1.Mode(in.Mode)
	}
	if in.SettleGrace != nil {
		c.grace = in.SettleGrace.Duration
	}
	c.managed = in.Gate != nil && in.Gate.ManagementPolicies == input.ManagementPoliciesManaged
	if in.ServiceAccount != "" {
		c.crossplane = in.ServiceAccount
	}
	if in.PolicySelector != nil {
		c.fetch, c.labels = true, in.PolicySelector.MatchLabels
	}
	if in.External != nil {
		c.tags = slices.Contains(in.External.Provenance, input.ProvenanceAWSTags)
		c.env = slices.Contains(in.External.Provenance, input.ProvenanceTerraformEnv)
	}
	return c
}

func validate(in *input.Input) field.ErrorList {
	var errs field.ErrorList
	if in.APIVersion != "" && in.APIVersion != input.APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), in.APIVersion, []string{input.APIVersion}))
	}
	if in.Kind != "" && in.Kind != input.Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), in.Kind, []string{input.Kind}))
	}
	switch in.Mode {
	case "", input.ModeLog, input.ModeEnforce:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("mode"), in.Mode, []input.Mode{input.ModeLog, input.ModeEnforce}))
	}
	if g := in.SettleGrace; g != nil && *g != (metav1.Duration{}) && g.Duration < 0 {
		errs = append(errs, field.Invalid(field.NewPath("settleGrace"), g.Duration.String(), "must not be negative"))
	}
	if in.Gate != nil {
		switch in.Gate.ManagementPolicies {
		case "", input.ManagementPoliciesWebhook, input.ManagementPoliciesManaged:
		default:
			errs = append(errs, field.NotSupported(field.NewPath("gate", "managementPolicies"), in.Gate.ManagementPolicies,
				[]input.ManagementPolicies{input.ManagementPoliciesWebhook, input.ManagementPoliciesManaged}))
		}
	}
	return append(errs, validateExternal(in.External, field.NewPath("external"))...)
}

func validateExternal(in *input.External, at *field.Path) (errs field.ErrorList) {
	if in == nil {
		return nil
	}
	for i, p := range in.Provenance {
		switch p {
		case input.ProvenanceAWSTags, input.ProvenanceTerraformEnv:
		default:
			errs = append(errs, field.NotSupported(at.Child("provenance").Index(i), p,
				[]input.Provenance{input.ProvenanceAWSTags, input.ProvenanceTerraformEnv}))
		}
	}
	return errs
}
