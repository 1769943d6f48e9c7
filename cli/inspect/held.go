package inspect

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/identity"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var definitionKind = schema.GroupKind{Group: "apiextensions.crossplane.io", Kind: "CompositeResourceDefinition"}

// conditionKausality is the condition in which the composition function says
// what it holds back.
const conditionKausality = "Kausality"

// Held reports what the composition function holds back in a namespace, or in
// all where it is empty, in the form of Drifts without a UID: it writes none,
// its condition on the composite says it. Fields have no values.
func Held(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, namespace string) ([]v1alpha1.Drift, error) {
	definitions, err := mapper.RESTMapping(definitionKind)
	if meta.IsNoMatchError(err) {
		return nil, nil // no Crossplane, no function
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the resource of %s: %w", definitionKind.Kind, err)
	}
	xrds, err := client.Resource(definitions.Resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot list the composite resource definitions: %w", err)
	}
	var out []v1alpha1.Drift
	for i := range xrds.Items {
		m, ok, err := mappingOf(mapper, &xrds.Items[i])
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		found, err := heldOf(ctx, client, mapper, m, namespace)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// mappingOf the composites that an XRD defines; not ok while it offers none.
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

func heldOf(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, m *meta.RESTMapping, namespace string) ([]v1alpha1.Drift, error) {
	var r dynamic.ResourceInterface = client.Resource(m.Resource)
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		r = client.Resource(m.Resource).Namespace(namespace)
	}
	var out []v1alpha1.Drift
	for next := ""; ; {
		list, err := r.List(ctx, metav1.ListOptions{Limit: page, Continue: next})
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", m.Resource.GroupResource(), err)
		}
		for i := range list.Items {
			found, err := HeldBack(ctx, client, mapper, &list.Items[i])
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
		if next = list.GetContinue(); next == "" {
			return out, nil
		}
	}
}

// HeldBack of one composite, as Held.
func HeldBack(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, xr *unstructured.Unstructured) ([]v1alpha1.Drift, error) {
	since, lines := heldLines(xr)
	if len(lines) == 0 {
		return nil, nil
	}
	s := parent.Sum(xr, parent.RoleComposite)
	children, err := childrenByResource(ctx, client, mapper, s)
	if err != nil {
		return nil, err
	}
	var out []v1alpha1.Drift
	for _, l := range lines {
		d := v1alpha1.Drift{Spec: v1alpha1.DriftSpec{
			ID: l.id, Relation: v1alpha1.RelationControllerChild, Parent: reference(s.Ref, s.Generation), Operation: l.operation,
			Child: v1alpha1.ObjectReference{Kind: l.kind, Namespace: l.namespace, Name: l.name}, SuggestedApproval: l.command, Cause: "the composition of " + identity.Describe(s.Ref),
		}}
		if s.CompositionRevision != "" {
			d.Spec.Cause = "composition revision " + s.CompositionRevision
		}
		if c, ok := children[l.resource]; ok {
			d.Spec.Child = c
		}
		d.Spec.Child.Resource = l.resource
		for _, p := range l.paths {
			d.Spec.Difference = append(d.Spec.Difference, v1alpha1.FieldDifference{Path: p})
		}
		d.Name, d.Namespace, d.CreationTimestamp = l.id, xr.GetNamespace(), since
		d.Status.Phase, d.Status.Since = v1alpha1.DriftDetected, &since
		out = append(out, d)
	}
	return out, nil
}

// StillHeld reports whether the function holds back a difference of a composite.
func StillHeld(xr *unstructured.Unstructured, id string) bool {
	_, lines := heldLines(xr)
	return slices.ContainsFunc(lines, func(l heldLine) bool { return l.id == id })
}

// heldLine of the condition: what is held, and the command that approves it.
type heldLine struct {
	resource, id, command, operation string
	kind, namespace, name            string
	paths                            []string
}

var (
	linePattern    = regexp.MustCompile(`^resource "([^"]+)": (.*)$`)
	commandPattern = regexp.MustCompile(`kubectl annotate .*kausality\.io/approve-([0-9a-f]{16})=\w+`)
	// whatPattern is how a refusal begins; the parts are for display alone.
	whatPattern = regexp.MustCompile(`^\w+: (changing|creating|deleting) (?:(.+) of )?(\w+) (?:([^ /]+)/)?([^ ]+|\(name to be generated\))(?: by [^ ]+)? is not allowed`)
)

var operationOf = map[string]admission.Operation{"changing": admission.Update, "creating": admission.Create, "deleting": admission.Delete}

// heldLines of the condition Kausality, those that can be approved, and since
// when they stand.
func heldLines(xr *unstructured.Unstructured) (since metav1.Time, out []heldLine) {
	list, _, _ := unstructured.NestedSlice(xr.Object, "status", "conditions") // a status of another shape says nothing
	for _, e := range list {
		c, _ := e.(map[string]any)
		if c["type"] != conditionKausality || c["status"] != "False" {
			continue
		}
		if t, ok := c["lastTransitionTime"].(string); ok {
			_ = since.UnmarshalQueryParameter(t) // without a time there is none to show
		}
		message, _ := c["message"].(string)
		for line := range strings.Lines(message) {
			if l, ok := parseHeld(strings.TrimSpace(line)); ok {
				out = append(out, l)
			}
		}
	}
	return since, out
}

func parseHeld(line string) (heldLine, bool) {
	m := linePattern.FindStringSubmatch(line)
	if m == nil {
		return heldLine{}, false
	}
	command := commandPattern.FindStringSubmatch(m[2])
	if command == nil {
		return heldLine{}, false
	}
	l := heldLine{resource: m[1], id: command[1], command: command[0], operation: string(admission.Update)}
	if w := whatPattern.FindStringSubmatch(m[2]); w != nil {
		l.operation, l.kind, l.namespace, l.name = string(operationOf[w[1]]), w[3], w[4], w[5]
		if w[2] != "" {
			l.paths = strings.Split(w[2], ", ")
		}
		if strings.HasPrefix(l.name, "(") {
			l.name = ""
		}
	}
	return l, true
}

// childrenByResource of a composite, by their names in the Composition.
func childrenByResource(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, s *parent.State) (map[string]v1alpha1.ObjectReference, error) {
	out := map[string]v1alpha1.ObjectReference{}
	for n, ref := range s.Children {
		if n == maxChildren {
			break
		}
		o, err := readRef(ctx, client, mapper, ref)
		if errors.Is(err, admission.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[o.GetAnnotations()[v1alpha1.AnnotationKeyCompositionResourceName]] = reference(parent.RefOf(o), o.GetGeneration())
	}
	return out, nil
}

// readRef reads the object that a reference names; admission.ErrNotFound where
// it does not exist.
func readRef(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, ref parent.Ref) (*unstructured.Unstructured, error) {
	m, err := mapper.RESTMapping(ref.GroupKind(), ref.Version)
	if err != nil {
		return nil, fmt.Errorf("cannot find the resource of kind %s: %w", ref.GroupKind(), err)
	}
	var r dynamic.ResourceInterface = client.Resource(m.Resource)
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		r = client.Resource(m.Resource).Namespace(ref.Namespace)
	}
	o, err := r.Get(ctx, ref.Name, metav1.GetOptions{})
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
	out := map[string]*unstructured.Unstructured{}
	for _, ref := range xr.Children {
		o, err := readRef(ctx, i.Direct.Dynamic, i.mapper, ref)
		if errors.Is(err, admission.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if name := o.GetAnnotations()[v1alpha1.AnnotationKeyCompositionResourceName]; name != "" {
			out[name] = o
		}
	}
	return out, nil
}
