package drift

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Bounds of the Drifts in a cluster (KR-10-06).
const (
	// keepResolved is for how long a resolved Drift is kept, so that a difference that occurs again is
	// known to have occurred before.
	keepResolved = 7 * 24 * time.Hour
	// maxResolved is the number of resolved Drifts that are kept; the oldest are deleted first.
	maxResolved = 1000
	// maxOpenPerChild bounds the open Drifts of one child: a controller that attempts something else
	// each time would create one per attempt.
	maxOpenPerChild = 10
)

// beyondBounds returns the Drifts to remove, which are resolved, and those to supersede, that is to
// resolve, because as many newer ones are open on the same child (KR-10-06).
func beyondBounds(drifts []v1alpha1.Drift, now time.Time) (remove, supersede []*v1alpha1.Drift) {
	var resolved []*v1alpha1.Drift
	open := map[string][]*v1alpha1.Drift{}
	for i := range drifts {
		d := &drifts[i]
		switch {
		case d.Status.Phase != v1alpha1.DriftResolved && d.Status.Holder == v1alpha1.HolderFunction:
			// As many as there are records: one of a child, and of creations as many as one list has (KR-09-25).
		case d.Status.Phase != v1alpha1.DriftResolved:
			open[childKey(d)] = append(open[childKey(d)], d)
		case now.Sub(lastSeen(d)) > keepResolved:
			remove = append(remove, d)
		default:
			resolved = append(resolved, d)
		}
	}
	remove = append(remove, oldestBeyond(resolved, maxResolved)...)
	for _, list := range open {
		supersede = append(supersede, oldestBeyond(list, maxOpenPerChild)...)
	}
	return remove, supersede
}

// Trim is the cache transform of Drifts: of a resolved one it keeps only what beyondBounds and the Deliverer read, since
// resolved Drifts are by far the most.
func Trim(o any) (any, error) {
	d, ok := o.(*v1alpha1.Drift)
	if !ok {
		return o, nil // a cache.DeletedFinalStateUnknown
	}
	d.ManagedFields = nil
	if d.Status.Phase != v1alpha1.DriftResolved {
		return d, nil
	}
	return &v1alpha1.Drift{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion, CreationTimestamp: d.CreationTimestamp,
		},
		Spec: v1alpha1.DriftSpec{Relation: d.Spec.Relation, Operation: d.Spec.Operation},
		Status: v1alpha1.DriftStatus{Phase: d.Status.Phase, LastSeen: d.Status.LastSeen,
			Since: d.Status.Since, Snoozed: d.Status.Snoozed, Reports: d.Status.Reports},
	}, nil
}

// childKey identifies a child. Children without a name, whose creation was refused, count as one per
// parent.
func childKey(d *v1alpha1.Drift) string {
	c := d.Spec.Child
	owner := types.UID("")
	if c.Name == "" {
		owner = d.Spec.Parent.UID
	}
	return string(owner) + "/" + c.APIVersion + "/" + c.Kind + "/" + c.Namespace + "/" + c.Name
}

// lastSeen is when a Drift occurred last, or was created.
func lastSeen(d *v1alpha1.Drift) time.Time {
	if d.Status.LastSeen != nil {
		return d.Status.LastSeen.Time
	}
	return d.CreationTimestamp.Time
}

// oldestBeyond returns the oldest of a list of which n are kept. It sorts the list.
func oldestBeyond(list []*v1alpha1.Drift, n int) []*v1alpha1.Drift {
	if len(list) <= n {
		return nil
	}
	slices.SortFunc(list, func(a, b *v1alpha1.Drift) int {
		return cmp.Or(lastSeen(a).Compare(lastSeen(b)), cmp.Compare(a.Name, b.Name))
	})
	return list[:len(list)-n]
}
