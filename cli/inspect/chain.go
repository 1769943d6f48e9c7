package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/identity"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Chain from the origin of an object's last change to the object.
type Chain struct {
	Object v1alpha1.ObjectReference `json:"object"`
	// Hops, origin first, the object's own last. Namespaces are absolute, unlike
	// in the annotation: empty is cluster-scoped.
	Hops []v1alpha1.Hop `json:"hops"`
	// Recorded: it is the object's trace annotation. Otherwise there is one hop,
	// derived from the object itself (KR-01-12).
	Recorded bool `json:"recorded"`
	// Children of a parent, with theirs; nil for an object that is no parent.
	Children []Descendant `json:"children,omitempty"`
	// Notes are sentences about what the chain does not show.
	Notes []string `json:"notes,omitempty"`
}

// Chain returns the chain of an object as it was read (KR-10-08).
func (i *Inspector) Chain(ctx context.Context, o *unstructured.Unstructured) (*Chain, error) {
	obj, err := i.look(ctx, o)
	if err != nil {
		return nil, err
	}
	value := obj.Annotations[v1alpha1.AnnotationKeyTrace]
	if _, err := trace.Parse(value); err != nil {
		return nil, fmt.Errorf("annotation %s of %s: %w", v1alpha1.AnnotationKeyTrace, identity.Describe(obj.State.Ref), err)
	}
	c := &Chain{Object: identity.ObjectReference(obj.State.Ref, obj.Generation, ""), Recorded: value != ""}
	last, _ := lastTrace(obj.State)
	for _, h := range last {
		c.Hops = append(c.Hops, *absolute(h, obj.State.Namespace))
	}
	if !c.Recorded {
		why, err := i.unrecorded(ctx, o)
		if err != nil {
			return nil, err
		}
		c.Notes = append(c.Notes, "Nothing is recorded on this object: "+why+".")
	}
	if c.Children, err = i.descendants(ctx, obj.State, 0); err != nil {
		return nil, err
	}
	note, err := i.ahead(ctx, obj.State, c.Hops)
	if note != "" {
		c.Notes = append(c.Notes, note)
	}
	return c, err
}

// unrecorded returns why an object has no trace, as a clause; never empty. Where the
// user may not read what is guarded, that is the reason (KR-12-19).
func (i *Inspector) unrecorded(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	if unread := i.unread; unread != nil { // which is an answer
		return "the reason is unknown, " + unread.Error(), nil //nolint:nilerr // It is what is reported.
	}
	guarded, why, err := i.guarded(ctx, o)
	if guarded {
		why = "its last change was not observed"
	}
	return why, err
}

// guarded reports whether the webhook sees changes of an object, and why not.
func (i *Inspector) guarded(ctx context.Context, o *unstructured.Unstructured) (is bool, why string, err error) {
	if i.unread != nil {
		return false, "", i.unread
	}
	info, err := i.Direct.Kinds.Get(o.GroupVersionKind())
	if err != nil {
		return false, "", err
	}
	return i.Direct.Guarded(ctx, info.GVR.GroupResource(), o.GetNamespace(), o.GetLabels())
}

// ahead returns a note where the parent has a newer intent than the one that caused
// the object's last change: it was not carried out here, or changed nothing.
func (i *Inspector) ahead(ctx context.Context, s *parent.State, hops []v1alpha1.Hop) (string, error) {
	if s.Parent.Name == "" {
		return "", nil
	}
	p, err := i.world.Parent(ctx, s.Parent, true)
	switch {
	case errors.Is(err, admission.ErrNotFound):
		return fmt.Sprintf("Its parent %s does not exist.", identity.Describe(s.Parent)), nil
	case err != nil:
		return "", fmt.Errorf("cannot read the parent %s: %w", identity.Describe(s.Parent), err)
	case len(hops) < 2 || !parent.Linked(p, s.Ref, s.Member):
		return "", nil
	}
	intent, _ := trace.Intent(p)
	if via := hops[len(hops)-2]; via.Kind != p.Kind || via.Name != p.Name || via.Generation >= intent.Generation {
		return "", nil
	}
	return fmt.Sprintf("Since then %s was changed by %s (generation %d), which has not changed this object.",
		identity.Describe(p.Ref), cmp.Or(intent.User, "an unknown user"), intent.Generation), nil
}
