package inspect

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// heldBelow returns what is held below an object: open Drifts of its children and of their children, and what the composition function holds.
func (i *Inspector) heldBelow(ctx context.Context, o *unstructured.Unstructured, p *parent.State) ([]admission.Below, error) {
	namespace := p.Namespace // of the Drifts, unless an object below is in another one
	if slices.ContainsFunc(p.Children, func(c parent.Ref) bool { return c.Namespace != p.Namespace }) {
		namespace = metav1.NamespaceAll
	}
	drifts, err := Drifts(ctx, i.Direct.Dynamic, namespace, func(d *v1alpha1.Drift) bool {
		return channel.Open(d) && d.Spec.Relation == v1alpha1.RelationControllerChild
	})
	if err != nil {
		return nil, err
	}
	var out []admission.Below
	known := map[string]bool{}
	add := func(d *v1alpha1.Drift, own bool) {
		if !known[d.Spec.ID] {
			out = append(out, belowOf(d, own))
		}
		known[d.Spec.ID] = true
	}
	for j := range drifts {
		d := &drifts[j]
		own := names(d.Spec.Parent, p.Ref)
		if own || slices.ContainsFunc(p.Children, func(c parent.Ref) bool { return named(d.Spec.Parent, c) }) {
			add(d, own)
		}
	}
	if p.Role != parent.RoleComposite {
		return out, nil
	}
	w, err := HeldBy(ctx, i.Direct.Dynamic, i.mapper, o)
	if err != nil {
		return out, err
	}
	held, err := w.complete()
	for j := range held {
		add(&held[j], true)
	}
	return out, err
}

// named reports whether a reference is to an object that is named without a UID, and maybe without its namespace.
func named(o v1alpha1.ObjectReference, ref parent.Ref) bool {
	gk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind()
	return gk == ref.GroupKind() && o.Name == ref.Name && (o.Namespace == "" || o.Namespace == ref.Namespace)
}

// belowOf returns what a Drift holds below an object.
func belowOf(d *v1alpha1.Drift, own bool) admission.Below {
	c := d.Spec.Child
	out := admission.Below{
		Child:     identity.Describe(identity.Ref(c)),
		Operation: admission.Operation(d.Spec.Operation), ID: d.Spec.ID, Own: own,
		Paths: lists.Map(d.Spec.Difference, func(f v1alpha1.FieldDifference) string { return f.Path }),
	}
	if h := d.Status.Held; h != nil && h.Since != nil {
		out.Since = h.Since.Generation
	}
	return out
}

// heldOn returns what is held of the updates of an object by its controller: by its open Drifts, and by the record of the
// composition function; nil for nothing.
func heldOn(o *unstructured.Unstructured, drifts []v1alpha1.Drift) *admission.Held {
	all := v1alpha1.HeldDrift{Drift: map[string]string{}}
	add := func(h v1alpha1.HeldDrift) {
		maps.Copy(all.Drift, h.Drift)
		if h.Since != nil && (all.Since == nil || h.Since.Generation < all.Since.Generation) {
			all.Since = h.Since
		}
	}
	for j := len(drifts) - 1; j >= 0; j-- { // the newest last
		d := &drifts[j]
		if d.Status.Held != nil && channel.Open(d) && d.Spec.Operation == string(admission.Update) && d.Spec.Child.UID == o.GetUID() {
			add(*d.Status.Held)
		}
	}
	var h v1alpha1.Held
	value := o.GetAnnotations()[v1alpha1.AnnotationKeyHeld]
	if value != "" && json.Unmarshal([]byte(value), &h) == nil && h.Operation == string(admission.Update) {
		add(h.HeldDrift)
	}
	return admission.HeldOf(all)
}
