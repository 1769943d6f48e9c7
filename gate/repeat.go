package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// A DELETE that was refused to the garbage collector, the namespace controller or
// Crossplane is recorded in its Drift (status.repeatFor). In a Namespace that is
// being deleted no Drift can be created; there the namespace controller waits for
// every object. Once the gates are open the gate repeats the DELETE (KR-08-13):
// the controller may retry in seconds, in fifteen minutes, or never.

// maxAncestors bounds how far up deletions are repeated from one MR.
const maxAncestors = 6

// repeat the deletion of an MR whose gate is open for it, and of each ancestor
// below which all gates are open (KR-08-13).
func (m *managed) repeat(ctx context.Context, o *states.Object) error {
	if o.Deleting() || !openForDelete(o) { // the change that opens its gate
		return nil
	}
	if err := m.repeatOne(ctx, o); err != nil {
		return err
	}
	for at, n := o, 0; at.Parent.Name != "" && n < maxAncestors; n++ {
		up, err := m.cluster.States.Get(ctx, at.Parent, false)
		if errors.Is(err, admission.ErrNotFound) { // it is deleted, and so is what is above it, or that is repeated from another child
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", identity.Describe(at.Parent), err)
		}
		if m.opened(up, 0) {
			if err := m.repeatOne(ctx, up); err != nil {
				return err
			}
		}
		at = up
	}
	return nil
}

// openForDelete reports whether the provider may delete the external resource.
func openForDelete(o *states.Object) bool {
	gate := mask.ParseGate(o.Annotations)
	return gate.State == v1alpha1.GateOpen && slices.Contains(gate.Verbs, v1alpha1.VerbDelete)
}

// opened reports whether all MRs below an object are open for Delete, from the
// cache. The webhook decides about the DELETE again.
func (m *managed) opened(o *states.Object, depth int) bool {
	for _, ref := range m.cluster.Below(o.State) {
		child := m.cluster.States.Cached(ref)
		if child == nil || child.Deleting() {
			continue
		}
		if m.scope.managed(ref) && !openForDelete(child) || depth < maxAncestors && !m.opened(child, depth+1) {
			return false
		}
	}
	return true
}

// repeatOne deletion, if a controller waits for it. The UID precondition protects
// an object that was re-created under the same name.
func (m *managed) repeatOne(ctx context.Context, o *states.Object) error {
	if o.Deleting() {
		return nil
	}
	who, err := m.waitingFor(ctx, o)
	if err != nil || who == "" {
		return err
	}
	r, err := m.cluster.States.Resource(o.State.Ref)
	if err != nil {
		return err
	}
	err = r.Delete(ctx, o.State.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID}})
	switch {
	case kerrors.IsNotFound(err): // that is what was wanted
		return nil
	case err != nil: // also a conflict: the object changed while the webhook decided, or was re-created, which its watch shows
		return fmt.Errorf("cannot repeat the deletion that was refused to %s: %w", who, err)
	}
	m.reporter.emit(o, normal(reasonDeletionRepeated, "The deletion that was refused to %s is allowed now, and was repeated.", who))
	repeated.Inc()
	return nil
}

// waitingFor returns the controller that waits for the deletion of an object, for
// messages; "" for none.
func (m *managed) waitingFor(ctx context.Context, o *states.Object) (string, error) {
	if m.cluster.Namespaces.Terminating(o.State.Namespace) {
		return "the namespace controller", nil
	}
	list := &v1alpha1.DriftList{}
	if err := m.reporter.drifts.List(ctx, list, client.MatchingFields{deletionIndex: string(o.UID)}); err != nil {
		return "", fmt.Errorf("cannot list drifts: %w", err)
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.Phase == v1alpha1.DriftDetected && d.Status.RepeatFor != "" {
			return d.Status.RepeatFor, nil
		}
	}
	return "", nil
}

// deletionIndex finds the Drifts of an object's refused deletion by the object's
// UID.
const deletionIndex = "spec.child.uid/DELETE"

// indexDeletion is the index function for deletionIndex.
func indexDeletion(o client.Object) []string {
	d, ok := o.(*v1alpha1.Drift)
	if !ok || d.Spec.Relation != v1alpha1.RelationExternal || d.Spec.Operation != string(admission.Delete) {
		return nil
	}
	return []string{string(d.Spec.Child.UID)}
}
