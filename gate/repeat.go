package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// A DELETE that was refused to the garbage collector, the namespace controller or
// Crossplane is remembered by its Drift (status.repeatFor), and a Namespace that
// is being deleted remembers it for all that is in it, where no Drift can be
// created any more. Once the gates are open, the gate repeats it: the controller
// itself may come back in seconds, in a quarter of an hour, or never. The UID
// sees to it that what was made anew meanwhile is not meant.

// maxAbove bounds how far up deletions are repeated from one MR.
const maxAbove = 6

// repeat the deletion of an MR that is open for it, and of what is above it
// where all gates below that are open.
func (c *Controller) repeat(ctx context.Context, o *cluster.Object) error {
	if o.Deleting() || !openForDelete(o) {
		return nil
	}
	if err := c.repeatOne(ctx, o); err != nil {
		return err
	}
	for at, n := o, 0; at.Parent.Name != "" && n < maxAbove; n++ {
		up, err := c.Cluster.States.Get(ctx, at.Parent, false)
		if errors.Is(err, admission.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", identity.Describe(at.Parent), err)
		}
		if c.opened(up, 0) {
			if err := c.repeatOne(ctx, up); err != nil {
				return err
			}
		}
		at = up
	}
	return nil
}

func openForDelete(o *cluster.Object) bool {
	gate := mask.ParseGate(o.Annotations)
	return gate.State == v1alpha1.GateOpen && slices.Contains(gate.Verbs, v1alpha1.VerbDelete)
}

// opened reports whether all MRs below an object are open for Delete, as far as
// the watches know. The webhook looks for itself.
func (c *Controller) opened(o *cluster.Object, depth int) bool {
	for _, ref := range o.Children {
		child := c.Cluster.States.Cached(ref)
		if child == nil || child.Deleting() {
			continue
		}
		if c.managed(ref) && !openForDelete(child) || depth < maxAbove && !c.opened(child, depth+1) {
			return false
		}
	}
	return true
}

// repeatOne deletion, where somebody waits for it.
func (c *Controller) repeatOne(ctx context.Context, o *cluster.Object) error {
	if o.Deleting() {
		return nil
	}
	who, err := c.waits(ctx, o)
	if err != nil || who == "" {
		return err
	}
	r, err := c.Cluster.States.Resource(o.State.Ref)
	if err != nil {
		return err
	}
	err = r.Delete(ctx, o.State.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID}})
	switch {
	case kerrors.IsNotFound(err), kerrors.IsConflict(err): // gone, or another one by now
		return nil
	case err != nil:
		return fmt.Errorf("cannot repeat the deletion that was refused to %s: %w", who, err)
	}
	c.emit(o, event{corev1.EventTypeNormal, "DeletionRepeated", fmt.Sprintf("The deletion that was refused to %s is allowed now, and was repeated.", who)})
	repeated.Inc()
	return nil
}

// waits tells which controller waits for the deletion of an object, "" for none.
func (c *Controller) waits(ctx context.Context, o *cluster.Object) (string, error) {
	if c.Cluster.Namespaces.Terminating(o.State.Namespace) {
		return "the namespace controller", nil
	}
	list := &v1alpha1.DriftList{}
	if err := c.Drifts.List(ctx, list, client.MatchingFields{deletionIndex: string(o.UID)}); err != nil {
		return "", fmt.Errorf("cannot list drifts: %w", err)
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.Phase == v1alpha1.DriftDetected && d.Status.RepeatFor != "" {
			return d.Status.RepeatFor, nil
		}
	}
	return "", nil
}

// deletionIndex finds the Drifts of an object's refused deletion by its UID.
const deletionIndex = "spec.child.uid/DELETE"

// IndexDeletion is the index function for deletionIndex.
func IndexDeletion(o client.Object) []string {
	d, ok := o.(*v1alpha1.Drift)
	if !ok || d.Spec.Relation != v1alpha1.RelationExternal || d.Spec.Operation != string(admission.Delete) {
		return nil
	}
	return []string{string(d.Spec.Child.UID)}
}

// orphaned tells of an MR whose deletion leaves its external resource behind
// because somebody asked for that.
func (c *Controller) orphaned(old, new *cluster.Object) {
	if !c.leading.Load() || old == nil || !c.ours(old.State.Ref) || old.Deleting() || new != nil && !new.Deleting() {
		return
	}
	last := old
	if new != nil {
		last = new
	}
	why := gating.OrphanReason(last.State)
	if why == "" {
		return
	}
	c.emit(last, event{corev1.EventTypeWarning, "ExternalOrphaned",
		fmt.Sprintf("The external resource %q is left behind, as %s asks for.", last.ExternalName, why)})
	orphans.Inc()
}
