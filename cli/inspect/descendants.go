package inspect

import (
	"context"
	"errors"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Descendant is a child of a parent, with what changed it last.
type Descendant struct {
	Object v1alpha1.ObjectReference `json:"object"`
	// Hop of its last change, its namespace absolute; nil where it does not exist or may not be read, which Note states as a clause.
	Hop  *v1alpha1.Hop `json:"hop,omitempty"`
	Note string        `json:"note,omitempty"`
	// Children of it, with theirs.
	Children []Descendant `json:"children,omitempty"`
	// More is how many siblings after it are left out.
	More int `json:"more,omitempty"`
}

const (
	// maxDescendants of one parent are shown, of maxGenerations below the first.
	maxDescendants = 20
	maxGenerations = 3
)

// descendants returns the descendants of an object, read live; nil for an object that is no parent (KR-12-31).
func (i *Inspector) descendants(ctx context.Context, p *parent.State, depth int) (out []Descendant, err error) {
	if depth == maxGenerations {
		return nil, nil
	}
	children, unread := p.Children, []Descendant(nil)
	if p.Role == parent.RoleInstance {
		if children, unread, err = members(ctx, i, p); err != nil {
			return nil, err
		}
	}
	for n, ref := range children {
		if n == maxDescendants {
			out[n-1].More = len(children) - n
			break
		}
		d := Descendant{Object: identity.ObjectReference(ref, 0, "")}
		s, err := i.world.Parent(ctx, ref, true)
		switch {
		case errors.Is(err, admission.ErrNotFound):
			d.Note = "it does not exist"
		case kerrors.IsForbidden(err):
			d.Note = "you may not read it"
		case err != nil:
			return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
		default:
			last, _ := lastTrace(s)
			hop := *last.Own()
			hop.Name, hop.Namespace, hop.ClusterScoped = s.Name, trace.NamespaceOf(hop, s.Namespace), s.Namespace == ""
			d.Object, d.Hop = identity.ObjectReference(s.Ref, s.Generation, ""), &hop
			if d.Children, err = i.descendants(ctx, s, depth+1); err != nil {
				return nil, err
			}
		}
		out = append(out, d)
	}
	return append(out, unread...), nil
}
