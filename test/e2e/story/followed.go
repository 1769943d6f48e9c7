package story

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// following are what makes the function pass a change that it holds otherwise. Each is
// an object that is created and deleted.
var following = []struct {
	what, manifest string
	resource       schema.GroupVersionResource
	name           string
	// held: it makes the function hold what a less specific policy in mode log allows.
	held bool
}{
	{what: "a ClusterApprovalPolicy", resource: v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceClusterApprovalPolicies), name: "tiers", manifest: `
apiVersion: kausality.io/v1alpha1
kind: ClusterApprovalPolicy
metadata: {name: tiers}
spec:
  rules: [{apiVersion: cloud.example.org/v1alpha1, kind: Database, mode: always}]
`},
	{what: "an expired one", resource: v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceClusterApprovalPolicies), name: "expired", held: true, manifest: `
apiVersion: kausality.io/v1alpha1
kind: ClusterApprovalPolicy
metadata: {name: expired}
spec:
  rules: [{apiVersion: cloud.example.org/v1alpha1, kind: Database, mode: always, expiry: "2026-01-01T00:00:00Z"}]
`},
	{what: "a Kausality policy in mode log", resource: v1alpha1.GroupVersion.WithResource("kausalities"), name: "log", manifest: `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: log}
spec: {mode: log, resources: [{apiGroups: [cloud.example.org], resources: [databases]}]}
`},
	{what: "one in mode enforce", resource: v1alpha1.GroupVersion.WithResource("kausalities"), name: "enforce", held: true, manifest: `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: enforce}
spec: {mode: enforce, resources: [{apiGroups: [cloud.example.org], resources: [databases]}]}
`},
	{what: "a suspended one", resource: v1alpha1.GroupVersion.WithResource("kausalities"), name: "suspended", manifest: `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: suspended}
spec: {mode: enforce, suspend: true, resources: [{apiGroups: [cloud.example.org], resources: [databases]}]}
`},
	{what: "the removal of Kausality", resource: schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "mutatingwebhookconfigurations"}, name: v1alpha1.WebhookConfigurationName, manifest: `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kausality, annotations: {kausality.io/removal: "2026-01-01T00:00:00Z"}}
`},
}

// followed: each change of the tier is held by the mode of the Input until the cluster
// has something that lets it pass, and with the next reconcile passes.
func followed(ctx context.Context, e *Env, t *Teller) error {
	held := ""
	for i, f := range following {
		var tier string
		var err error
		if tier, held, err = e.heldAgain(ctx, fmt.Sprintf("tier-%d", i), held); err != nil {
			return err
		}
		before, err := e.Cloud.LastSeq(ctx)
		if err != nil {
			return err
		}
		if err := e.Apply(ctx, []byte(f.manifest)); err != nil {
			return err
		}
		if err := e.Annotate(ctx, Alice, XDatabases, xrName, "example.org/reconcile", tier); err != nil {
			return err
		}
		if err := e.follows(ctx, t, f.what, tier, f.held, before); err != nil {
			return fmt.Errorf("%s: %w", f.what, err)
		}
		if err := e.admin.Resource(f.resource).Delete(ctx, f.name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// heldAgain composes tiers until the function holds one: Crossplane's cache may still
// have what let the last one pass. held is the annotation before, and after.
func (e *Env) heldAgain(ctx context.Context, prefix, before string) (tier, held string, err error) {
	const retry = 5 * time.Second
	n, composed := 0, time.Time{}
	next := func() error {
		n, composed = n+1, time.Now()
		tier = fmt.Sprint(prefix, ".", n)
		return e.Compose(ctx, Composition{Tier: tier, Kausality: true, Follows: true})
	}
	if err := next(); err != nil {
		return "", "", err
	}
	err = until(ctx, "the function to hold the change", func(ctx context.Context) error {
		mr, err := e.MR(ctx)
		if err != nil {
			return err
		}
		if text(mr, "spec", "forProvider", "tags", "tier") == tier {
			if time.Since(composed) < retry { // Crossplane's circuit breaker counts revisions, too
				return fmt.Errorf("%s is not held", tier)
			}
			return errors.Join(fmt.Errorf("%s is not held", tier), next())
		}
		if held = mr.GetAnnotations()[v1alpha1.AnnotationKeyHeld]; held == "" || held == before {
			return fmt.Errorf("the Database has %s: %q", v1alpha1.AnnotationKeyHeld, held)
		}
		return nil
	})
	return tier, held, err
}

// follows: the tier stays held, or reaches the cloud.
func (e *Env) follows(ctx context.Context, t *Teller, what, tier string, held bool, before int64) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	if held {
		if err := e.unwritten(ctx, before, mr.GetName(), 3); err != nil {
			return err
		}
		t.Right("%s: the change stays held", what)
		return nil
	}
	err = until(ctx, "the change to reach the cloud", func(ctx context.Context) error {
		db, err := e.Cloud.Get(ctx, mr.GetName())
		if err == nil && db.Tags["tier"] != tier {
			err = fmt.Errorf("its tier is %q", db.Tags["tier"])
		}
		return err
	})
	if err == nil {
		t.Right("%s: the change reaches the cloud", what)
	}
	return err
}
