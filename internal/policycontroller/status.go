package policycontroller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// offer is a resource that the API server serves.
type offer struct {
	schema.GroupVersionResource
	// managed: it has the category managed, as managed resources of Crossplane have.
	managed bool
}

// offered lists the resources that can be listed, each in one version. Groups whose
// API server does not answer are left out.
func (c *Controller) offered() ([]offer, error) {
	_, lists, err := c.Discovery.ServerGroupsAndResources()
	var away *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &away) {
		return nil, fmt.Errorf("cannot discover resources: %w", err)
	}
	var out []offer
	seen := map[schema.GroupResource]bool{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("cannot discover resources: %w", err)
		}
		for i := range l.APIResources {
			r := &l.APIResources[i]
			gr := schema.GroupResource{Group: gv.Group, Resource: r.Name}
			if seen[gr] || !slices.Contains(r.Verbs, "list") {
				continue
			}
			seen[gr] = true
			out = append(out, offer{gv.WithResource(r.Name), slices.Contains(r.Categories, "managed")})
		}
	}
	return out, nil
}

// outcome of a reconcile, for all policies.
type outcome struct {
	// failed is why something could not be written; nil where all was.
	failed error
	// configured: there is a certificate, and so a webhook configuration.
	configured bool
	// removing: Kausality is being uninstalled (KR-12-08).
	removing bool
	// guarded is what was made of the policies; nil for nothing.
	guarded *manifests.Guarded
	// retained resources, as in Controller.retained.
	retained []string
}

// report the outcome in the status of each policy.
func report(ctx context.Context, c *Controller, p *pass) error {
	set := p.set
	offered, err := c.offered()
	if err != nil {
		return err
	}
	kinds, err := graphKinds(ctx, c.Cached)
	if err != nil {
		return err
	}
	c.countMasked(ctx, offered, set.Scopes(), p.retained)
	policyGauge.Reset()
	for i := range p.policies.Items {
		k := &p.policies.Items[i]
		next := k.DeepCopy()
		count(next, set, offered)
		next.Status.MaskedCRDs = c.maskedCRDs(k.Name, set)
		outage(next, set, p.outcome)
		c.conditions(next, p.faults[k.Name], p.outcome)
		graphs, is := graphsOf(k.Name, set, kinds)
		if !is || graphs.Status == metav1.ConditionTrue {
			if failed, some := notDerived(k.Name, set, c.deriver.Failed()); some {
				graphs, is = failed, true
			}
		}
		if is {
			graphs.ObservedGeneration = k.Generation
			meta.SetStatusCondition(&next.Status.Conditions, graphs)
		} else {
			meta.RemoveStatusCondition(&next.Status.Conditions, v1alpha1.KausalityGraphs)
		}
		ready := meta.IsStatusConditionTrue(next.Status.Conditions, v1alpha1.KausalityReady)
		policyGauge.WithLabelValues(k.Name, fmt.Sprint(ready)).Set(1)
		if equality.Semantic.DeepEqual(k.Status, next.Status) {
			continue
		}
		if err := c.Direct.Status().Patch(ctx, next, client.MergeFrom(k), client.FieldOwner(v1alpha1.ManagerController)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cannot write the status of policy %s: %w", k.Name, err)
		}
		writes.WithLabelValues("Kausality").Inc()
	}
	return nil
}

// maxUnknown bounds status.unknown.
const maxUnknown = 16

// count the offered resources that a policy covers, and list those of its
// resources that are not offered.
func count(k *v1alpha1.Kausality, set settings.Set, offered []offer) {
	k.Status.Resources, k.Status.ManagedResources, k.Status.Unknown = 0, 0, nil
	for _, o := range offered {
		if !covers(set, k.Name, o.GroupResource()) {
			continue
		}
		k.Status.Resources++
		if o.managed {
			k.Status.ManagedResources++
		}
	}
	for _, r := range k.Spec.Resources {
		for _, g := range r.APIGroups {
			for _, name := range r.Resources {
				known := slices.ContainsFunc(offered, func(o offer) bool { return o.Group == g && (name == settings.All || o.Resource == name) })
				text := schema.GroupResource{Group: g, Resource: name}.String()
				if !known && len(k.Status.Unknown) < maxUnknown && !slices.Contains(k.Status.Unknown, text) {
					k.Status.Unknown = append(k.Status.Unknown, text)
				}
			}
		}
	}
}

// conditions of a policy. A fault of its own takes precedence over an outcome.
func (c *Controller) conditions(k *v1alpha1.Kausality, fault error, out outcome) {
	set := func(kind string, ok bool, reason, message string) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&k.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message,
			ObservedGeneration: k.Generation})
	}
	webhook := c.pulse.state()
	webhook.ObservedGeneration = k.Generation
	meta.SetStatusCondition(&k.Status.Conditions, webhook)
	const ready, configured = v1alpha1.KausalityReady, v1alpha1.KausalityWebhookConfigured
	switch {
	case fault != nil:
		set(ready, false, v1alpha1.KausalityReasonNotUnderstood, fault.Error()+"; the policy has no effect until it is fixed")
		set(configured, false, v1alpha1.KausalityReasonNotUnderstood, "the policy is invalid")
	case out.failed != nil:
		set(ready, false, v1alpha1.KausalityReasonNotWritten, out.failed.Error())
		set(configured, false, v1alpha1.KausalityReasonNotWritten, "the webhook configuration in the cluster may be stale")
	case !out.configured:
		set(ready, false, v1alpha1.KausalityReasonNoCertificate, "there is no serving certificate in secret "+manifests.SecretServing+" yet")
		set(configured, false, v1alpha1.KausalityReasonNoCertificate, "there is no serving certificate yet")
	case out.removing:
		set(ready, false, v1alpha1.KausalityReasonBeingRemoved, "Kausality is being removed: nothing is enforced or masked any more; to cancel the removal, run "+
			"kubectl annotate mutatingwebhookconfiguration "+scope.ConfigurationName+" "+scope.AnnotationKeyRemoval+"-")
		set(configured, true, v1alpha1.KausalityReasonBeingRemoved, "webhook configured; enforcement disabled for removal")
	default:
		set(ready, true, v1alpha1.KausalityReasonUnderstood, "access rules are written")
		set(configured, true, v1alpha1.KausalityReasonApplied, "the API server sends what the policy covers to the webhook")
	}
}
