package policycontroller

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

// pass is one reconcile of everything. It computes all of it again from what is stored, so that it may be interrupted anywhere.
type pass struct {
	// policies that are stored, and the set of the valid ones.
	policies *v1alpha1.KausalityList
	set      settings.Set
	// faults are the errors of invalid policies, by name.
	faults map[string]error
	// certificates, as far as they may be renewed before the bundle is in the configuration.
	certificates renewal
	// live webhook configuration; nil if it does not exist.
	live *admissionregistrationv1.MutatingWebhookConfiguration
	// scopes that the configuration is to have.
	scopes []settings.Scope
	outcome
}

// step of a pass.
type step struct {
	name string
	run  func(context.Context, *Controller, *pass) error
}

// do the step, in a span of its name.
func (s step) do(ctx context.Context, c *Controller, p *pass) error {
	ctx, span := telemetry.Span(ctx, s.name)
	err := s.run(ctx, c, p)
	telemetry.End(span, err)
	return err
}

// reading are the steps before anything is written that others depend on. The pass ends with the first error.
var reading = []step{
	{"list policies", listPolicies},
	{"renew certificates", renewCertificates},
	{"read configuration", readConfiguration},
	{"find retained resources", findRetained},
	{"read protected CRDs", func(ctx context.Context, c *Controller, _ *pass) error { return c.remember(ctx) }},
}

// writing are the steps that write, in the order that matters: access before the configuration that needs it, the CA bundle before
// the certificate that it is for, and last what nothing else depends on. After an error only the status is written, which shows it.
var writing = []step{
	{"write configuration", writeConfiguration},
	{"finish certificates", finishCertificates},
	{reportStatus, report},
	{"protect CRDs", protectCRDs},
	{"create authors policy", createAuthorsPolicy},
}

const reportStatus = "report status"

// pass reconciles the webhook configurations, the ValidatingAdmissionPolicies, the roles and the certificates with the policies,
// and reports on the policies.
func (c *Controller) pass(ctx context.Context) (reconcile.Result, error) {
	there, err := c.installed(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !there {
		return reconcile.Result{RequeueAfter: retryWithout}, nil
	}
	p := &pass{}
	for _, s := range reading {
		if err := s.do(ctx, c, p); err != nil {
			return reconcile.Result{}, err
		}
	}
	for _, s := range writing {
		if p.failed != nil && s.name != reportStatus {
			continue
		}
		if err := s.do(ctx, c, p); err != nil && p.failed == nil {
			p.failed = err
		}
	}
	return reconcile.Result{RequeueAfter: c.again(p)}, p.failed
}

func listPolicies(ctx context.Context, c *Controller, p *pass) error {
	p.policies = &v1alpha1.KausalityList{}
	if err := c.Cached.List(ctx, p.policies); err != nil {
		return fmt.Errorf("cannot list policies: %w", err)
	}
	p.set, p.faults = c.understand(p.policies)
	p.scopes = p.set.Scopes()
	return nil
}

func renewCertificates(ctx context.Context, c *Controller, p *pass) (err error) {
	p.certificates, err = c.rotate(ctx)
	p.configured = p.certificates.bundle != nil
	return err
}

func readConfiguration(ctx context.Context, c *Controller, p *pass) (err error) {
	if p.live, err = c.live(ctx); err != nil {
		return err
	}
	if p.removing = p.live != nil && scope.Removing(p.live); p.removing {
		c.Log.Info("Kausality is being removed: no request is refused any more", "annotation", scope.AnnotationKeyRemoval)
		p.scopes = lenient(p.scopes)
	}
	return nil
}

func findRetained(ctx context.Context, c *Controller, p *pass) (err error) {
	p.retained, err = c.retained(ctx, p.live, p.scopes)
	return err
}

func writeConfiguration(ctx context.Context, c *Controller, p *pass) (err error) {
	p.guarded, err = c.write(ctx, p.scopes, p.retained, p.certificates.bundle, p.removing)
	return err
}

// finishCertificates that are valid by the bundle, once that is in the configuration.
func finishCertificates(ctx context.Context, _ *Controller, p *pass) error {
	if !p.configured {
		return nil
	}
	return p.certificates.finish(ctx)
}

func protectCRDs(ctx context.Context, c *Controller, p *pass) error {
	if !p.configured {
		return nil
	}
	return c.protect(ctx, len(p.scopes)+len(p.retained) > 0)
}

func createAuthorsPolicy(ctx context.Context, c *Controller, p *pass) error {
	if p.removing {
		return nil
	}
	return c.traceAuthors(ctx, p.policies)
}

// again returns after how long there is something to do, at the latest: with the certificates, to count masked objects, and to
// release what is retained.
func (c *Controller) again(p *pass) time.Duration {
	again := p.certificates.again
	if len(c.maskedKinds) > 0 {
		again = min(again, c.recountAfter())
	}
	if len(p.retained) > 0 {
		c.Log.Info("resources are no longer guarded; access to them stays until nothing of them is masked", "resources", p.retained)
		again = min(again, retryRetained)
	}
	return again
}
