package manifests

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Embedded is what an API server guards that has Kausality within.
type Embedded struct {
	// Resources as in Options.
	Resources []string
	// NamespaceSelector selects the Namespaces of namespaced objects, ObjectSelector objects, by their labels; nil for all.
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	// DefaultMode as in Options.
	DefaultMode v1alpha1.Mode
}

// Check the resources and selectors.
func (e Embedded) Check() error {
	_, err := parseResources(e.Resources)
	if err != nil {
		return err
	}
	for _, s := range []*metav1.LabelSelector{e.NamespaceSelector, e.ObjectSelector} {
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			return err
		}
	}
	return nil
}

// Configuration returns the webhook configuration that selects the same objects. It has no addresses, and is stored nowhere.
func (e Embedded) Configuration() (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	groups, err := parseResources(e.Resources)
	if err != nil {
		return nil, err
	}
	in := &input{embedded: true, baseURL: nowhere, groups: groups, timeout: DefaultTimeoutSeconds}
	in.entries = []entry{{groups: groups, failurePolicy: failurePolicyOf("", e.DefaultMode), objectSelector: e.ObjectSelector}}
	out := webhookConfiguration(in)
	for i := range out.Webhooks {
		if s := out.Webhooks[i].NamespaceSelector; e.NamespaceSelector != nil {
			s.MatchLabels = e.NamespaceSelector.MatchLabels
			s.MatchExpressions = slices.Concat(s.MatchExpressions, e.NamespaceSelector.MatchExpressions)
		}
	}
	return out, nil
}

// Critical reports whether an object is never decided about: nodes and the API server itself write it, and cannot go on without, or Kausality
// needs it to get up again (KR-13-55).
func Critical(r schema.GroupResource, namespace, name string) bool {
	if resources, ok := criticalResources[r.Group]; ok && (slices.Contains(resources, all) || slices.Contains(resources, r.Resource)) {
		return true
	}
	return slices.Contains(ownGroups, r.Group) && namespace == "" && (strings.HasPrefix(name, "kausality-") || strings.HasSuffix(name, ".kausality.io"))
}
