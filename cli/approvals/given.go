package approvals

import (
	"cmp"
	"context"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// Given is an approval that is not used up, or votes for one.
type Given struct {
	// Object that it is on, and its resource with group.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Resource  string `json:"resource"`
	// ID of the difference; empty for an approval by kind and name.
	ID   string                `json:"id,omitempty"`
	Kind string                `json:"kind,omitempty"`
	Mode v1alpha1.ApprovalMode `json:"mode"`
	// By are the users who gave it; nil where that is unknown.
	By []string `json:"by,omitempty"`
	// Now is the id of the same deletion where ID is of a release whose ids of deletions did not cover what is below an object: the
	// approval is ignored. Empty for any other.
	Now string `json:"now,omitempty"`
	// Command that approves it under that id; empty for none.
	Command string `json:"command,omitempty"`
}

// List lists the approvals on claims, composite and managed resources in a namespace, or, where it is empty, in all and on cluster-scoped
// objects: those first that are ignored. The kinds that the user may not list are named by an error each in unread.
func List(ctx context.Context, d *cluster.Direct, namespace string) (out []Given, unread []error, err error) {
	err = d.EachKind(ctx, page, func(info kinds.Info) error {
		if info.Role == parent.RoleNone || namespace != "" && !info.Namespaced {
			return nil
		}
		read, err := inspect.EachObject(ctx, d, info, namespace, func(o *unstructured.Unstructured) error {
			given, err := on(ctx, d, info, o)
			out = append(out, given...)
			return err
		})
		if kerrors.IsForbidden(read) {
			unread = append(unread, read)
		}
		return err
	})
	slices.SortStableFunc(out, func(a, b Given) int {
		return cmp.Or(first(a.Now != "", b.Now != ""), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, unread, err
}

// on returns the approvals on an object.
func on(ctx context.Context, d *cluster.Direct, info kinds.Info, o *unstructured.Unstructured) ([]Given, error) {
	if !approval.Holds(o.GetAnnotations()) {
		return nil, nil
	}
	if err := d.Learn(ctx, info.GVK); err != nil {
		return nil, err
	}
	s := d.Sum(o).State
	var out []Given
	for _, e := range approval.Parse(s.Annotations).Approvals {
		c := approval.ParseClaims(s.Annotations[v1alpha1.AnnotationKeyClaims]).Of(e.Content)
		if c != nil && c.Spent() || v1alpha1.IsApprove(e.Key) && !change.IsID(e.Digest) {
			continue // used, or from an earlier release with an invalid id (KR-12-28)
		}
		g := Given{Namespace: s.Namespace, Name: s.Name, Resource: info.Resource, ID: e.Digest, Kind: e.Kind, Mode: e.Mode}
		if c != nil {
			g.By = lists.Map(c.By, func(v v1alpha1.Vote) string { return v.User })
		}
		if info.Role != parent.RoleManaged && e.Digest != "" && e.Digest == identity.DeletionDigest(s, s).ID() {
			below, err := d.Managed(ctx, s)
			if err != nil {
				return nil, err
			}
			if now := identity.WholeOf(s, below).Digest.ID(); now != e.Digest {
				g.Now, g.Command = now, identity.ApproveCommand(s, d.Kinds.Kind(info.GVK), now)
			}
		}
		out = append(out, g)
	}
	return out, nil
}
