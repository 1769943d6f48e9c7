package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

var definitionKind = schema.GroupKind{Group: "apiextensions.crossplane.io", Kind: "CompositeResourceDefinition"}

// Waiting is what waits for a decision.
type Waiting struct {
	// Drifts that can be approved. What the composition function holds has the form of Drifts without a UID.
	Drifts []v1alpha1.Drift
	// Behind a freeze or a rejection are changes that no approval lets pass as long as that lasts.
	Behind []Behind
	// Unread are the errors of what the user may not read, and which is left out.
	Unread []error
}

// Behind is a change that the composition function holds, and that cannot be approved for a reason: Frozen or Rejected.
type Behind struct {
	v1alpha1.DriftSpec `json:",inline"`
	Reason             string `json:"reason"`
}

// add adds what waits elsewhere.
func (w *Waiting) add(o Waiting) {
	w.Drifts, w.Behind, w.Unread = append(w.Drifts, o.Drifts...), append(w.Behind, o.Behind...), append(w.Unread, o.Unread...)
}

// Held returns the changes that the composition function holds in a namespace,
// or in all where it is empty. They have the form of
// Drifts without a UID: the function writes no Drifts, but annotations on the
// composed resources (KR-09-05). Where Crossplane is not installed there are none.
func Held(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, namespace string) (out Waiting, err error) {
	definitions, err := mapper.RESTMapping(definitionKind)
	if meta.IsNoMatchError(err) {
		return out, nil // no Crossplane, no function
	}
	if err != nil {
		return out, fmt.Errorf("cannot find the resource of %s: %w", definitionKind.Kind, err)
	}
	xrds, err := client.Resource(definitions.Resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		err = fmt.Errorf("cannot list the composite resource definitions: %w", err)
		if kerrors.IsForbidden(err) {
			out.Unread, err = []error{err}, nil
		}
		return out, err
	}
	for i := range xrds.Items {
		m, ok, err := mappingOf(mapper, &xrds.Items[i])
		if err != nil {
			return out, err
		}
		if !ok {
			continue
		}
		found, err := heldOf(ctx, client, mapper, m, namespace)
		if err != nil && !kerrors.IsForbidden(err) {
			return out, err
		}
		if err != nil {
			found.Unread = append(found.Unread, err)
		}
		out.add(found)
	}
	return out, nil
}

// mappingOf returns the mapping of the composites that an XRD defines; not ok while the API server does
// not serve them.
func mappingOf(mapper meta.RESTMapper, xrd *unstructured.Unstructured) (*meta.RESTMapping, bool, error) {
	group, _, err := unstructured.NestedString(xrd.Object, "spec", "group")
	if err != nil {
		return nil, false, fmt.Errorf("cannot read %s: %w", xrd.GetName(), err)
	}
	kind, _, err := unstructured.NestedString(xrd.Object, "spec", "names", "kind")
	if err != nil {
		return nil, false, fmt.Errorf("cannot read %s: %w", xrd.GetName(), err)
	}
	m, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
	if meta.IsNoMatchError(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot find the resource of %s: %w", kind, err)
	}
	return m, true, nil
}

// heldOf returns what is held of the composites of one kind.
func heldOf(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, m *meta.RESTMapping, namespace string) (out Waiting, err error) {
	for xr, err := range informer.Items(ctx, ClientOf(client, m, namespace), informer.PageSize) {
		if err != nil {
			return out, fmt.Errorf("cannot list %s: %w", m.Resource.GroupResource(), err)
		}
		found, err := HeldBy(ctx, client, mapper, xr)
		if err != nil {
			return out, err
		}
		out.add(found)
	}
	return out, nil
}

// ClientOf returns the client of the objects of a mapping, in a namespace where they are namespaced.
func ClientOf(client dynamic.Interface, m *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	return informer.ResourceOf(client, m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, namespace)
}

// HeldBy returns the changes that the composition function holds of one
// composite, as Held, sorted by their names in the Composition.
func HeldBy(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, xr *unstructured.Unstructured) (out Waiting, err error) {
	since, ok := heldSince(xr)
	if !ok {
		return out, nil
	}
	s := parent.Sum(xr, parent.RoleComposite)
	composed, unread, err := composedBy(ctx, client, mapper, s)
	if err != nil {
		return out, err
	}
	out.Unread = unread
	for _, h := range annotatedChanges(composed) {
		spec := h.spec(s)
		if h.approve == "" { // an approval would have no effect, as while the composite is frozen
			out.Behind = append(out.Behind, Behind{DriftSpec: spec, Reason: h.reason})
			continue
		}
		d := v1alpha1.Drift{Spec: spec}
		d.Name, d.Namespace, d.CreationTimestamp = h.id, xr.GetNamespace(), since
		d.Status.Phase, d.Status.Since, d.Status.Lacks = v1alpha1.DriftDetected, &since, h.lacks
		out.Drifts = append(out.Drifts, d)
	}
	slices.SortStableFunc(out.Drifts, func(a, b v1alpha1.Drift) int { return cmp.Compare(a.Spec.Child.Resource, b.Spec.Child.Resource) })
	slices.SortStableFunc(out.Behind, func(a, b Behind) int { return cmp.Compare(a.Child.Resource, b.Child.Resource) })
	return out, nil
}

// complete returns what waits, or the error of the first object that may not be read.
func (w Waiting) complete() ([]v1alpha1.Drift, error) {
	if len(w.Unread) > 0 {
		return nil, w.Unread[0]
	}
	return w.Drifts, nil
}

// StillHeld reports whether the composition function holds the difference with
// an id of a composite.
func StillHeld(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, xr *unstructured.Unstructured, id string) (bool, error) {
	w, err := HeldBy(ctx, client, mapper, xr)
	if err != nil {
		return false, err
	}
	held, err := w.complete()
	return slices.ContainsFunc(held, func(d v1alpha1.Drift) bool { return d.Name == id }), err
}

// heldSince returns the last transition of the condition Kausality of a composite of which something is held, zero where it has none; not ok where
// nothing is held.
func heldSince(xr *unstructured.Unstructured) (since metav1.Time, ok bool) {
	list, _, err := unstructured.NestedSlice(xr.Object, "status", "conditions")
	if err != nil {
		return since, false // conditions of another shape are not the function's
	}
	for _, e := range list {
		c, isMap := e.(map[string]any)
		if !isMap || c["type"] != v1alpha1.ConditionKausality || c["status"] != string(metav1.ConditionFalse) {
			continue
		}
		if t, isString := c["lastTransitionTime"].(string); isString && since.UnmarshalQueryParameter(t) != nil {
			since = metav1.Time{}
		}
		return since, true
	}
	return since, false
}

// heldChange is a change of a composed resource that the function holds.
type heldChange struct {
	// child has its name in the Composition. The name of the object is empty where
	// Crossplane is to generate it.
	child     v1alpha1.ObjectReference
	operation string
	// id of the difference and approve, the command that approves it; both are
	// empty where an approval would have no effect.
	id, approve string
	// reason of the refusal, and what the votes lack, as a clause.
	reason, lacks string
	paths         []string
	// causes of a change that reverts an edit; nil for any other.
	causes []v1alpha1.HopCause
}

// spec returns the spec of the change below a composite.
func (h heldChange) spec(s *parent.State) v1alpha1.DriftSpec {
	out := v1alpha1.DriftSpec{
		ID: h.id, Relation: v1alpha1.RelationControllerChild, Parent: identity.ObjectReference(s.Ref, s.Generation, ""), Operation: h.operation,
		Child: h.child, SuggestedApproval: h.approve, Cause: "the composition of " + identity.Describe(s.Ref), Causes: h.causes,
	}
	if rev := s.CompositionRevision; rev != "" {
		out.Cause = "composition revision " + rev
		if len(h.causes) == 0 {
			out.Causes = []v1alpha1.HopCause{{Kind: v1alpha1.CauseComposition, Name: rev}}
		}
	}
	for _, p := range h.paths {
		out.Difference = append(out.Difference, v1alpha1.FieldDifference{Path: p})
	}
	return out
}

// annotatedChanges returns the held changes of composed resources: changes are annotated on the object
// itself, creations on any of the others. One that does not parse counts as none: the function writes it again.
func annotatedChanges(composed []*unstructured.Unstructured) (out []heldChange) {
	for _, o := range composed {
		a := o.GetAnnotations()
		h := v1alpha1.Held{}
		if json.Unmarshal([]byte(a[v1alpha1.AnnotationKeyHeld]), &h) == nil {
			out = append(out, heldChange{child: childOf(o), operation: h.Operation, id: h.ID, approve: h.Approve,
				reason: h.Reason, lacks: h.Lacks, paths: h.Paths, causes: h.Causes})
		}
		var creations []v1alpha1.HeldCreation
		if json.Unmarshal([]byte(a[v1alpha1.AnnotationKeyHeldCreations]), &creations) != nil {
			continue
		}
		for _, c := range creations {
			child := v1alpha1.ObjectReference{APIVersion: c.APIVersion, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Resource: c.Resource}
			out = append(out, heldChange{child: child, operation: string(admission.Create), id: c.ID, approve: c.Approve, reason: c.Reason, lacks: c.Lacks})
		}
	}
	return out
}

// childOf refers to a composed resource with its name in the Composition.
func childOf(o *unstructured.Unstructured) v1alpha1.ObjectReference {
	return identity.ObjectReference(parent.RefOf(o), o.GetGeneration(), o.GetAnnotations()[v1alpha1.AnnotationKeyCompositionResourceName])
}

// composedBy reads the composed resources of a composite that exist. unread are the errors of those that the user may not read.
func composedBy(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, s *parent.State,
) (out []*unstructured.Unstructured, unread []error, err error) {
	for _, ref := range s.Children {
		o, err := readRef(ctx, client, mapper, ref)
		switch {
		case errors.Is(err, admission.ErrNotFound):
		case kerrors.IsForbidden(err):
			unread = append(unread, err)
		case err != nil:
			return nil, nil, err
		default:
			out = append(out, o)
		}
	}
	return out, unread, nil
}

// readRef reads the object that a reference names; admission.ErrNotFound where
// it does not exist.
func readRef(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, ref parent.Ref) (*unstructured.Unstructured, error) {
	m, err := mapper.RESTMapping(ref.GroupKind(), ref.Version)
	if err != nil {
		return nil, fmt.Errorf("cannot find the resource of kind %s: %w", ref.GroupKind(), err)
	}
	o, err := ClientOf(client, m, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return nil, admission.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	return o, nil
}

// Composed resources of a composite, by their names in the Composition, read
// live.
func (i *Inspector) Composed(ctx context.Context, xr *parent.State) (map[string]*unstructured.Unstructured, error) {
	composed, unread, err := composedBy(ctx, i.Direct.Dynamic, i.mapper, xr)
	if err != nil {
		return nil, err
	}
	if len(unread) > 0 {
		return nil, unread[0]
	}
	out := map[string]*unstructured.Unstructured{}
	for _, o := range composed {
		if name := o.GetAnnotations()[v1alpha1.AnnotationKeyCompositionResourceName]; name != "" {
			out[name] = o
		}
	}
	return out, nil
}
