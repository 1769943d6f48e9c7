package drift

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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
	// maxOwed is the number of resolved Drifts that are kept beyond that since reports of them are owed (KR-10-14).
	maxOwed = 10_000
	// maxOpenPerChild bounds the open Drifts of one child: a controller that attempts something else
	// each time would create one per attempt.
	maxOpenPerChild = 10
)

// beyondBounds returns the Drifts to remove, which are resolved, and those to supersede, that is to
// resolve, because as many newer ones are open on the same child (KR-10-06).
func beyondBounds(drifts []v1alpha1.Drift, now time.Time) (remove []*v1alpha1.Drift, supersede []superseded) {
	var resolved, owing []*v1alpha1.Drift
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
		case anyOwed(&d.Status):
			owing = append(owing, d)
		default:
			resolved = append(resolved, d)
		}
	}
	remove = append(append(remove, oldestBeyond(resolved, maxResolved)...), oldestBeyond(owing, maxOwed)...)
	for _, list := range open {
		if beyond := oldestBeyond(list, maxOpenPerChild); len(beyond) > 0 {
			supersede = append(supersede, superseded{drifts: beyond, by: list})
		}
	}
	return remove, supersede
}

// superseded Drifts of one child, by others that are newer; by has all open Drifts of the child.
type superseded struct{ drifts, by []*v1alpha1.Drift }

// holder returns the newest Drift of the child, and what it is to hold in place of the superseded Drifts: the whole child (KR-13-67). nil if
// the other Drifts hold all paths of the superseded ones.
func (s superseded) holder() (*v1alpha1.Drift, *v1alpha1.HeldDrift) {
	whole := &v1alpha1.HeldDrift{Drift: map[string]string{v1alpha1.HeldWhole: ""}}
	kept, lost := map[string]bool{}, map[string]bool{} // paths
	for _, d := range s.by {
		h := d.Status.Held
		if h == nil {
			continue
		}
		paths := kept
		if slices.Contains(s.drifts, d) {
			paths = lost
		}
		for path := range h.Drift {
			paths[path] = true
		}
		if h.Since != nil && (whole.Since == nil || h.Since.Generation < whole.Since.Generation) {
			whole.Since = h.Since
		}
	}
	if kept[v1alpha1.HeldWhole] {
		return nil, nil
	}
	maps.DeleteFunc(lost, func(path string, _ bool) bool { return kept[path] }) // of one path, the last value is held
	newest := slices.MaxFunc(s.by, func(a, b *v1alpha1.Drift) int {
		return cmp.Or(lastSeen(a).Compare(lastSeen(b)), cmp.Compare(a.Name, b.Name))
	})
	if len(lost) == 0 {
		return nil, nil
	}
	return newest, whole
}

// Trim is the cache transform of Drifts: of a resolved one of which no report is owed it keeps only what beyondBounds and the Deliverer read,
// since these are by far the most.
func Trim(o any) (any, error) {
	d, ok := o.(*v1alpha1.Drift)
	if !ok {
		return o, nil // a cache.DeletedFinalStateUnknown
	}
	switch {
	case d.Status.Phase != v1alpha1.DriftResolved:
		d.ManagedFields = nil
		return d, nil
	case anyOwed(&d.Status):
		d.ManagedFields = ofStatus(d.ManagedFields)
		return d, nil
	}
	return &v1alpha1.Drift{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion, CreationTimestamp: d.CreationTimestamp,
			ManagedFields: ofStatus(d.ManagedFields),
		},
		Spec: v1alpha1.DriftSpec{ID: d.Name, Digest: d.Spec.Digest, Relation: d.Spec.Relation, Operation: d.Spec.Operation},
		Status: v1alpha1.DriftStatus{Phase: d.Status.Phase, LastSeen: d.Status.LastSeen,
			Since: d.Status.Since, Snoozed: d.Status.Snoozed, Deliveries: d.Status.Deliveries},
	}, nil
}

// ofStatus returns the last manager that wrote a status, without its fields; nil for none.
func ofStatus(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var last metav1.ManagedFieldsEntry
	for _, e := range entries {
		if e.Subresource == "status" && e.Time != nil && (last.Time == nil || !e.Time.Before(last.Time)) {
			last = metav1.ManagedFieldsEntry{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource, Time: e.Time}
		}
	}
	if last.Manager == "" {
		return nil
	}
	return []metav1.ManagedFieldsEntry{last}
}

// resolvedByUs reports whether Kausality resolved a Drift, as Trim leaves it. A manager is a claim of its client, who has the right to
// approve (KR-13-67).
func resolvedByUs(d *v1alpha1.Drift) bool {
	managers := ofStatus(d.ManagedFields)
	return len(managers) == 0 || strings.HasPrefix(managers[0].Manager, managerPrefix)
}

// managerPrefix begins the field managers of Kausality's processes.
const managerPrefix = "kausality"

// childKey identifies a child. All children of a parent without a name, which are refused creations, have the same
// key.
func childKey(d *v1alpha1.Drift) string {
	c := d.Spec.Child
	owner := types.UID("")
	if c.Name == "" {
		owner = d.Spec.Parent.UID
	}
	return string(owner) + "/" + c.APIVersion + "/" + c.Kind + "/" + c.Namespace + "/" + c.Name
}

// lastSeen returns when a Drift occurred last, or was created.
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
