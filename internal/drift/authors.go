package drift

import (
	"context"
	"fmt"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// completeAuthors adds to the causes of an open Drift the authors that were not known when it was recorded (KR-07-15). written reports that it
// added any, which the cache does not show yet.
func (r *Resolver) completeAuthors(ctx context.Context, d *v1alpha1.Drift) (written bool, err error) {
	if r.Function == nil || d.Status.Phase != v1alpha1.DriftDetected {
		return false, nil
	}
	causes := slices.Clone(d.Spec.Causes)
	for i, c := range causes {
		if c.Author != "" || !c.Kind.IsRevision() {
			continue
		}
		if found := r.authored(ctx, c); found != c && (found.Author != "" || c.Manager == "") {
			causes[i], written = found, true
		}
	}
	if !written {
		return false, nil
	}
	return true, r.Reporter.Attribute(ctx, d, causes)
}

// Attribute a Drift to its causes once their authors are known.
func (r *Reporter) Attribute(ctx context.Context, d *v1alpha1.Drift, causes []v1alpha1.HopCause) error {
	before := d.DeepCopy()
	d = d.DeepCopy()
	d.Spec.Causes = causes
	err := r.Client.Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if kerrors.IsConflict(err) || kerrors.IsNotFound(err) {
		return nil // the next round sees what is stored
	}
	if err != nil {
		return fmt.Errorf("cannot write the authors of the causes of a drift: %w", err)
	}
	return nil
}
