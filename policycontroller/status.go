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
	"github.com/kausality-io/function-kausality/cluster"
)

// offer of the API server.
type offer struct {
	schema.GroupVersionResource
	managed bool
}

// offered resources. Groups whose server is away are left out.
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

// outcome of a round, for all policies.
type outcome struct {
	failed error
	// configured: there is a certificate, and so a webhook configuration.
	configured bool
	// removing: Kausality is being removed.
	removing bool
}

// report in the policies' status what became of them.
func (c *Controller) report(ctx context.Context, list *v1alpha1.KausalityList, set settings.Set, faults map[string]error, out outcome) error {
	offered, err := c.offered()
	if err != nil {
		return err
	}
	policies.Reset()
	for i := range list.Items {
		k := &list.Items[i]
		next := k.DeepCopy()
		count(next, set, offered)
		c.conditions(next, faults[k.Name], out)
		ready := meta.IsStatusConditionTrue(next.Status.Conditions, v1alpha1.KausalityReady)
		policies.WithLabelValues(k.Name, fmt.Sprint(ready)).Set(1)
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

const maxUnknown = 16

// count what a policy covers of what the API server offers.
func count(k *v1alpha1.Kausality, set settings.Set, offered []offer) {
	k.Status.Resources, k.Status.ManagedResources, k.Status.Unknown = 0, 0, nil
	for _, o := range offered {
		covered := slices.ContainsFunc(set.Scopes(), func(s settings.Scope) bool { return s.Policy == k.Name && s.Covers(o.Group, o.Resource) })
		if covered {
			k.Status.Resources++
		}
		if covered && o.managed {
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

func (c *Controller) conditions(k *v1alpha1.Kausality, fault error, out outcome) {
	set := func(kind string, ok bool, reason, message string) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&k.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: k.Generation})
	}
	switch {
	case fault != nil:
		set(v1alpha1.KausalityReady, false, "NotUnderstood", fault.Error()+"; mend the policy, until then it guards nothing")
		set(v1alpha1.KausalityWebhookConfigured, false, "NotUnderstood", "the policy is not understood")
	case out.failed != nil:
		set(v1alpha1.KausalityReady, false, "NotWritten", out.failed.Error())
		set(v1alpha1.KausalityWebhookConfigured, false, "NotWritten", "what the API server has may be out of date")
	case !out.configured:
		set(v1alpha1.KausalityReady, false, "NoCertificate", "there is no serving certificate in secret "+c.CertSecret+" yet")
		set(v1alpha1.KausalityWebhookConfigured, false, "NoCertificate", "there is no serving certificate yet")
	case out.removing:
		set(v1alpha1.KausalityReady, false, "BeingRemoved", "Kausality is being removed: nothing is enforced and nothing is masked any more; to go on with it, run "+
			"kubectl annotate mutatingwebhookconfiguration "+cluster.ConfigurationName+" "+cluster.AnnotationKeyRemoval+"-")
		set(v1alpha1.KausalityWebhookConfigured, true, "BeingRemoved", "the API server asks, and nothing is refused")
	default:
		set(v1alpha1.KausalityReady, true, "Understood", "access rules are written")
		set(v1alpha1.KausalityWebhookConfigured, true, "Applied", "the API server asks about what the policy covers")
	}
}
