package cluster

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// Unread returns sentences about what could not be read, so that answers are incomplete.
func (d *Direct) Unread() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.unread)
}

// note what could not be read, once.
func (d *Direct) note(sentence string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.unread, sentence) {
		d.unread = append(d.unread, sentence)
	}
}

// learnDiscovered learns a kind from discovery, which every authenticated user may read, if the
// user may not read its CRD. The role of the kind follows from its categories. forbidden is the
// error of reading the CRD.
func (d *Direct) learnDiscovered(m *meta.RESTMapping, forbidden error) error {
	gv := m.GroupVersionKind.GroupVersion()
	list, err := d.Kubernetes.Discovery().ServerResourcesForGroupVersion(gv.String())
	if err != nil {
		return errors.Join(forbidden, fmt.Errorf("cannot discover the resources of %s: %w", gv, err))
	}
	for _, r := range list.APIResources {
		if r.Name == m.Resource.Resource {
			d.note(fmt.Sprintf("%s: %s. Its role is that of its categories; ids of its changes may be other ones", m.Resource.GroupResource(), forbidden))
			d.remember(definitionOf(gv, r))
		}
	}
	return nil
}

// eachDiscovered calls f for each kind with a role that discovery has, in its preferred
// version.
func (d *Direct) eachDiscovered(forbidden error, f func(kinds.Info) error) error {
	lists, err := d.Kubernetes.Discovery().ServerPreferredResources()
	failed := &discovery.ErrGroupDiscoveryFailed{}
	if err != nil && !errors.As(err, &failed) {
		return errors.Join(fmt.Errorf("cannot list CRDs: %w", forbidden), fmt.Errorf("cannot discover resources: %w", err))
	}
	if failed.Groups != nil {
		d.note(fmt.Sprintf("some API groups: %s", failed))
	}
	d.note(fmt.Sprintf("CRDs: %s. Only kinds with the categories managed, composite and claim are known", forbidden))
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // of an aggregated API server that breaks the API conventions
		}
		for _, r := range list.APIResources {
			for _, info := range d.remember(definitionOf(gv, r)) {
				if info.Role == parent.RoleNone {
					continue
				}
				if err := f(info); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// definitionOf a resource, as far as discovery has it: a CRD without a schema but for the
// managementPolicies that managed resources have.
func definitionOf(gv schema.GroupVersion, r metav1.APIResource) *unstructured.Unstructured {
	scope, properties := "Cluster", map[string]any{}
	if r.Namespaced {
		scope = "Namespaced"
	}
	if slices.Contains(r.Categories, "managed") {
		properties["managementPolicies"] = map[string]any{"type": "array"}
	}
	categories := make([]any, 0, len(r.Categories))
	for _, c := range r.Categories {
		categories = append(categories, c)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": r.Name + "." + gv.Group},
		"spec": map[string]any{
			"group": gv.Group, "scope": scope, "names": map[string]any{"kind": r.Kind, "plural": r.Name, "categories": categories},
			"versions": []any{map[string]any{"name": gv.Version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec": map[string]any{"type": "object", "properties": properties},
				}}}}},
		},
	}}
}

// ServesPolicies reports whether the API server serves the kinds of Kausality; an error where it does not, or not all of them.
func (c *Cluster) ServesPolicies() error {
	list, err := c.Kubernetes.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return fmt.Errorf("cannot discover %s: %w", v1alpha1.GroupVersion, err)
	}
	for _, want := range servedResources {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == want }) {
			return fmt.Errorf("the API server does not serve %s.%s", want, v1alpha1.Group)
		}
	}
	return nil
}

// servedResources are all that the CRDs of Kausality define.
var servedResources = append(v1alpha1.PolicyResources(), v1alpha1.ResourceKausalities, v1alpha1.ResourceDrifts, v1alpha1.ResourceDriftReceivers,
	v1alpha1.ResourceRollouts, v1alpha1.ResourceClusterRollouts, v1alpha1.ResourceRolloutBatches)
