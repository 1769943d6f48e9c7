package webhook

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// keepResolved is how long a resolved Drift stays, and what occurred once
	// can be seen to have occurred before.
	keepResolved = 7 * 24 * time.Hour
	// maxResolved Drifts stay; the oldest go first.
	maxResolved = 1000
	// maxOpenPerChild bounds the open Drifts of one child: a controller that
	// wants something else on each try would make one for each.
	maxOpenPerChild = 10
)

// bounds tells which Drifts are to go: those that are resolved, deleted, and
// those that are open on the same child as many newer ones, resolved.
func bounds(drifts []v1alpha1.Drift, now time.Time) (remove, supersede []*v1alpha1.Drift) {
	var resolved []*v1alpha1.Drift
	open := map[string][]*v1alpha1.Drift{}
	for i := range drifts {
		d := &drifts[i]
		switch {
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

// childKey tells children apart; those that never got a name count as one per
// parent.
func childKey(d *v1alpha1.Drift) string {
	c := d.Spec.Child
	owner := types.UID("")
	if c.Name == "" {
		owner = d.Spec.Parent.UID
	}
	return string(owner) + "/" + c.APIVersion + "/" + c.Kind + "/" + c.Namespace + "/" + c.Name
}

func lastSeen(d *v1alpha1.Drift) time.Time {
	if d.Status.LastSeen != nil {
		return d.Status.LastSeen.Time
	}
	return d.CreationTimestamp.Time
}

func oldestBeyond(list []*v1alpha1.Drift, n int) []*v1alpha1.Drift {
	if len(list) <= n {
		return nil
	}
	slices.SortFunc(list, func(a, b *v1alpha1.Drift) int {
		return cmp.Or(lastSeen(a).Compare(lastSeen(b)), cmp.Compare(a.Name, b.Name))
	})
	return list[:len(list)-n]
}
