package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// following are what makes a change pass that is held otherwise. Each is an object that is
// created and deleted. The answer is the same with the function, with webhook and gate, with
// both, and after webhook and gate were uninstalled (KR-09-23, KR-09-24).
var following = []follower{
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
	{what: "a suspended one", shut: true, resource: v1alpha1.GroupVersion.WithResource("kausalities"), name: "suspended", manifest: `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: suspended}
spec: {mode: enforce, suspend: true, resources: [{apiGroups: [cloud.example.org], resources: [databases]}]}
`},
	{what: "a ClusterApprovalPolicy while the XR is frozen", resource: v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceClusterApprovalPolicies),
		name: "frozen", held: true, frozen: true, manifest: `
apiVersion: kausality.io/v1alpha1
kind: ClusterApprovalPolicy
metadata: {name: frozen}
spec:
  rules: [{apiVersion: cloud.example.org/v1alpha1, kind: Database, mode: always}]
`},
	{what: "the removal of Kausality", shut: true, resource: schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "mutatingwebhookconfigurations"}, name: v1alpha1.WebhookConfigurationName, manifest: `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kausality, annotations: {kausality.io/removal: "2026-01-01T00:00:00Z"}}
`},
}

// follower is one of following.
type follower struct {
	what, manifest string
	resource       schema.GroupVersionResource
	name           string
	// held: the change stays held.
	held bool
	// frozen: the XR is, meanwhile.
	frozen bool
	// shut: the gate stays as it is, so that the cloud is not written to.
	shut bool
}

// followed: each change of the tier is held by the default mode until the cluster has
// something that lets it pass, and with the next reconcile passes.
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
		if err := e.enact(ctx, t, f); err != nil {
			return err
		}
		if err := e.Annotate(ctx, Alice, XDatabases, xrName, "example.org/reconcile", tier); err != nil {
			return err
		}
		if err := e.follows(ctx, t, f, tier, before); err != nil {
			return fmt.Errorf("%s: %w", f.what, err)
		}
		if err := e.revoke(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// enact what a change may pass by.
func (e *Env) enact(ctx context.Context, t *Teller, f follower) error {
	if f.frozen {
		if err := e.Annotate(ctx, Alice, XDatabases, xrName, v1alpha1.AnnotationKeyFreeze, "true"); err != nil {
			return err
		}
		if err := e.reportsFrozen(ctx, t); err != nil { // a reconcile under way has not read it
			return err
		}
	}
	if e.removes(f) {
		return e.mark(ctx, f, "2026-01-01T00:00:00Z")
	}
	return e.Apply(ctx, []byte(f.manifest))
}

// revoke it.
func (e *Env) revoke(ctx context.Context, f follower) error {
	if e.removes(f) {
		return e.mark(ctx, f, nil)
	}
	if err := e.admin.Resource(f.resource).Delete(ctx, f.name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if f.frozen {
		return e.Annotate(ctx, Alice, XDatabases, xrName, v1alpha1.AnnotationKeyFreeze, nil)
	}
	return nil
}

// removes reports whether it is the removal of a Kausality that has a webhook, whose
// configuration exists.
func (e *Env) removes(f follower) bool {
	return e.Options.Webhook && f.name == v1alpha1.WebhookConfigurationName
}

// mark the webhook configuration as removed; nil for not.
func (e *Env) mark(ctx context.Context, f follower, at any) error {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyRemoval: at}}})
	if err != nil {
		return err
	}
	_, err = e.admin.Resource(f.resource).Patch(ctx, f.name, types.MergePatchType, raw, metav1.PatchOptions{})
	return err
}

// heldAgain composes tiers until the function holds one: Crossplane's cache may still
// have what let the last one pass. held is the annotation before, and after.
func (e *Env) heldAgain(ctx context.Context, prefix, before string) (tier, held string, err error) {
	const retry = 5 * time.Second
	n, composed := 0, time.Time{}
	next := func() error {
		n, composed = n+1, time.Now()
		tier = fmt.Sprint(prefix, ".", n)
		return e.Compose(ctx, Composition{Tier: tier, Kausality: e.Options.Function})
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
		held, err = e.heldTier(ctx, mr, tier)
		if err == nil && held == before {
			err = fmt.Errorf("it is held as before: %s", held)
		}
		return err
	})
	return tier, held, err
}

// heldTier is what holds a tier: the Drift, or without a webhook the function's record.
func (e *Env) heldTier(ctx context.Context, mr *unstructured.Unstructured, tier string) (string, error) {
	value := fmt.Sprintf("%q", tier)
	if !e.Options.Webhook {
		var h v1alpha1.Held
		record := mr.GetAnnotations()[v1alpha1.AnnotationKeyHeld]
		if record == "" || json.Unmarshal([]byte(record), &h) != nil || len(h.Difference) != 1 || h.Difference[0].New != value {
			return "", fmt.Errorf("the Database has %s: %q", v1alpha1.AnnotationKeyHeld, record)
		}
		return record, nil
	}
	list, err := e.admin.Resource(Drifts).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		if d := &list.Items[i]; text(d, "status", "phase") == string(v1alpha1.DriftDetected) && text(first(d), "new") == value {
			return d.GetName(), nil
		}
	}
	return "", fmt.Errorf("no Drift of %d has tier %s", len(list.Items), tier)
}

// follows: the tier stays held, or reaches the Database, and the cloud unless the gate is to
// stay shut.
func (e *Env) follows(ctx context.Context, t *Teller, f follower, tier string, before int64) error {
	mr, err := e.MR(ctx)
	if err != nil {
		return err
	}
	if f.held {
		if err := e.Unwritten(ctx, before, mr.GetName(), 3); err != nil {
			return err
		}
		if mr, err = e.MR(ctx); err != nil || text(mr, "spec", "forProvider", "tags", "tier") == tier {
			return errors.Join(errors.New("the Database has the tier"), err)
		}
		t.Right("%s: the change stays held", f.what)
		return nil
	}
	err = until(ctx, "the change to arrive", func(ctx context.Context) error {
		if mr, err = e.MR(ctx); err != nil {
			return err
		}
		if have := text(mr, "spec", "forProvider", "tags", "tier"); have != tier {
			return fmt.Errorf("the Database's tier is %q", have)
		}
		db, err := e.Cloud.Get(ctx, mr.GetName())
		if err == nil && db.Tags["tier"] != tier && !(f.shut && e.Options.Webhook) {
			err = fmt.Errorf("its tier in the cloud is %q", db.Tags["tier"])
		}
		return err
	})
	if err == nil {
		t.Right("%s: the change passes", f.what)
	}
	return err
}
