package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// entry of the webhook configuration: which objects the API server sends to
// one webhook.
type entry struct {
	rules               []rule
	namespaces, objects labels.Selector
	// namespaced: it is about no cluster-scoped objects.
	namespaced bool
	// refuses what it is about while the webhook does not answer.
	refuses bool
}

// entriesOf a webhook configuration, those about whole objects. The API server validated
// it; an entry with a selector that cannot be read is left out, and an error.
func entriesOf(o *unstructured.Unstructured) (out []entry, failed error) {
	hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return nil, fmt.Errorf("cannot read the webhook configuration: %w", err)
	}
	for _, h := range hooks {
		m, _ := h.(map[string]any)
		e := entry{rules: rulesOf(&unstructured.Unstructured{Object: map[string]any{"webhooks": []any{m}}}, mains)}
		if len(e.rules) == 0 {
			continue
		}
		if e.namespaces, err = selectorOf(m["namespaceSelector"]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot read the namespaceSelector of a webhook: %w", err))
			continue
		}
		if e.objects, err = selectorOf(m["objectSelector"]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot read the objectSelector of a webhook: %w", err))
			continue
		}
		e.namespaced, e.refuses = namespacedOnly(m), m["failurePolicy"] != "Ignore" // the API server's default is Fail
		out = append(out, e)
	}
	return out, failed
}

// namespacedOnly reports whether the rules of a webhook are about no cluster-scoped objects.
func namespacedOnly(hook map[string]any) bool {
	rules, _ := hook["rules"].([]any)
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(e any) bool {
		r, _ := e.(map[string]any)
		return r["scope"] != "Namespaced"
	})
}

// selectorOf labels; one that is not given selects everything.
func selectorOf(v any) (labels.Selector, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return labels.Everything(), nil
	}
	s := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, s); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(s)
}

// Guarded reports whether the API server sends an object to the webhook; where
// it does not, why is what excludes it, as a clause.
func (d *Direct) Guarded(ctx context.Context, resource schema.GroupResource, namespace string, own map[string]string) (is bool, why string, err error) {
	is, why, err = guards(d.Scope.entered(), resource, namespace, d.labelsOf(ctx), labeled(own))
	if err != nil || !is {
		return is, why, err
	}
	suspended, err := d.suspended(ctx, resource, namespace, own)
	if suspended {
		return false, whySuspended, err
	}
	return true, "", err
}

// whySuspended is why an object is not sent to the webhook although an entry is about it.
const whySuspended = "its policy is suspended"

// suspended reports whether the policy that covers an object is (KR-12-13).
func (d *Direct) suspended(ctx context.Context, resource schema.GroupResource, namespace string, own map[string]string) (bool, error) {
	d.policies.Do(func() { d.policiesFailed = d.readPolicies(ctx) })
	if d.policiesFailed != nil || len(d.Policies.Set().Scopes()) == 0 {
		return false, d.policiesFailed
	}
	ns, err := d.namespace(ctx, namespace)
	t := settings.Target{Group: resource.Group, Resource: resource.Resource, Namespace: namespace, Labels: own, NamespaceLabels: ns.labels}
	return d.Policies.Set().For(t).Suspended, err
}

// FailsOpen reports whether changes of an object that is guarded are allowed without a decision while the webhook does not answer
// (KR-12-11). mode is that of the policy which covers it, or the default: where several entries may be about the object, which one
// is follows from it.
func (d *Direct) FailsOpen(ctx context.Context, resource schema.GroupResource, namespace string, own map[string]string, mode v1alpha1.Mode) (bool, error) {
	open, closed := false, false
	for _, e := range d.Scope.entered() {
		is, _, err := guards([]entry{e}, resource, namespace, d.labelsOf(ctx), labeled(own))
		if err != nil {
			return false, err
		}
		open, closed = open || is && !e.refuses, closed || is && e.refuses
	}
	return open && (!closed || mode != v1alpha1.ModeEnforce), nil
}

// labelsOf Namespaces, read when first needed.
func (d *Direct) labelsOf(ctx context.Context) func(string) (map[string]string, error) {
	return func(name string) (map[string]string, error) {
		ns, err := d.namespace(ctx, name)
		return ns.labels, err
	}
}

// guards reports whether an object is sent to the webhook by one of the entries; where it
// is not, why. labelsOf a Namespace; nil leaves Namespaces out of it.
func guards(entries []entry, resource schema.GroupResource, namespace string,
	labelsOf func(namespace string) (map[string]string, error), selects func(entry) bool,
) (is bool, why string, err error) {
	why = "its kind is not guarded"
	for _, e := range entries {
		if !covers(e.rules, resource) {
			continue
		}
		if namespace == "" && e.namespaced {
			why = "it is cluster-scoped, and only objects in namespaces are guarded"
			continue
		}
		if namespace != "" && labelsOf != nil {
			of, err := labelsOf(namespace)
			if err != nil {
				return false, "", err
			}
			if !e.namespaces.Matches(labels.Set(of)) {
				why = "its namespace is not guarded"
				continue
			}
		}
		if selects(e) {
			return true, "", nil
		}
		why = "its labels keep it out"
	}
	return false, why, nil
}

// Reviews reports whether requests about an object are reviewed, so that approvals on it
// count (KR-13-15). Where there is no webhook configuration of that name, they are by one
// of another name, or none are and there is no approver RBAC: they count. A configuration
// that follows no policies may be one of several, by Namespace: it decides by kind, scope
// and labels alone.
func (c *Cluster) Reviews(s *parent.State) bool {
	return c.reviews(s.Ref, cachedLabels(c), labeled(s.Labels))
}

// MayReview is Reviews of an object whose labels are not known: whether it may be one that is guarded.
func (c *Cluster) MayReview(ref parent.Ref) bool { return c.reviews(ref, cachedLabels(c), anyLabels) }

// cachedLabels of Namespaces.
func cachedLabels(c *Cluster) func(string) (map[string]string, error) {
	return func(namespace string) (map[string]string, error) { return c.Namespaces.Labels(namespace), nil }
}

// labeled selects the entries that apply to objects with some labels.
func labeled(own map[string]string) func(entry) bool {
	return func(e entry) bool { return e.objects.Matches(labels.Set(own)) }
}

// anyLabels is for objects whose labels are not known.
func anyLabels(entry) bool { return true }

// Reviews as of a Cluster; what cannot be read is not guarded, and an error of Failed.
func (d *Direct) Reviews(ctx context.Context, s *parent.State) bool {
	return d.reviews(s.Ref, readLabels(ctx, d), labeled(s.Labels))
}

// MayReview as of a Cluster; what cannot be read is not guarded, and an error of Failed.
func (d *Direct) MayReview(ctx context.Context, ref parent.Ref) bool {
	return d.reviews(ref, readLabels(ctx, d), anyLabels)
}

// readLabels is labelsOf, with what cannot be read as an error of Failed.
func readLabels(ctx context.Context, d *Direct) func(string) (map[string]string, error) {
	return func(namespace string) (map[string]string, error) {
		of, err := d.labelsOf(ctx)(namespace)
		if err != nil {
			d.Fail(err)
		}
		return of, err
	}
}

func (c *Cluster) reviews(ref parent.Ref, labelsOf func(string) (map[string]string, error), selects func(entry) bool) bool {
	if !c.Scope.known() {
		return true
	}
	info, err := c.Kinds.Get(ref.GroupVersionKind)
	if err != nil {
		return false
	}
	if !c.Scope.FollowsPolicies() {
		labelsOf = nil
	}
	is, _, err := guards(c.Scope.entered(), info.GVR.GroupResource(), ref.Namespace, labelsOf, selects)
	return err == nil && is
}
