package fn

import (
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/input/validation"
	"github.com/kausality-io/function-kausality/fn/policies"
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
	// gate is what its gates are like where no policy covers a resource (KR-09-27); nil for the defaults.
	gate     *v1alpha1.GateSettings
	policies policies.Source
	// crossplane is the user name with which Crossplane writes.
	crossplane string
	// secrets are the fields of composed resources with secret values.
	secrets change.SecretFields
	// claims are the keys that seal claims; nil for none.
	claims *approval.Keys
	// provenance are the ways in which the cause of a change is recorded.
	provenance []v1alpha1.Provenance
	// session is what the sessions of AWS identify; "" for none.
	session input.AWSSessionPer
}

// configOf reads an Input, which may be nil. The error names the field that is invalid (KR-09-01).
func configOf(s *structpb.Struct) (config, error) {
	cfg := config{mode: v1alpha1.ModeLog, grace: defaultSettleGrace, crossplane: defaultServiceAccount}
	if s == nil {
		return cfg, nil
	}
	in, err := validation.Decode(ssa.Object(s))
	if err != nil {
		return cfg, err
	}
	if err := validation.Input(in).ToAggregate(); err != nil {
		return cfg, err
	}
	if cfg.policies, err = policies.Compile(in); err != nil {
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
	if c.managed {
		c.gate = &in.Gate.GateSettings
	}
	if in.ServiceAccount != "" {
		c.crossplane = in.ServiceAccount
	}
	c.secrets = change.SecretFieldsOf(in.SecretPaths...)
	if in.External != nil {
		c.provenance = in.External.Provenance
		if aws := in.External.AWS; aws != nil && aws.Session != nil {
			c.session = aws.Session.Per
		}
	}
	return c
}
