package records

import (
	"cmp"
	"time"

	"github.com/kausality-io/function-kausality/admission/trace"
	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// drift that begins or is over. Its fields are those of a Drift, whose later changes it does not see.
type drift struct {
	spec  v1alpha1.DriftSpec
	since time.Time
	// holder is who holds it; empty for a refusal.
	holder v1alpha1.DriftHolder
	// logged: the change passed.
	logged bool
	// parent's trace and labels; nil where unknown.
	parent trace.Trace

	// over is when it was resolved; zero while it is not. why is a clause for users, and approval what resolved it; nil for none.
	over     time.Time
	why      string
	approval *v1alpha1.HopApproval
}

// OfDrift returns what is recorded when an occurrence of a drift was stored (KR-16-11): DriftHeld, or DriftLogged where the change passed. of is the trace
// of its parent.
func OfDrift(d *v1alpha1.Drift, of trace.Trace, logged bool) Occurrence {
	if d.Status.Since == nil {
		return nil
	}
	return &drift{
		spec: *d.Spec.DeepCopy(), since: d.Status.Since.Time, holder: d.Status.Holder, logged: logged, parent: of,
	}
}

// OfResolution returns what is recorded when a drift was set to Resolved at a time (KR-16-11).
func OfResolution(d *v1alpha1.Drift, at time.Time) Occurrence {
	if d.Status.Since == nil {
		return nil
	}
	return &drift{spec: *d.Spec.DeepCopy(), since: d.Status.Since.Time, over: at, why: d.Status.Resolution, approval: d.Status.Approval.DeepCopy()}
}

// Records returns the records of the drift.
func (d *drift) Records(c recordsv1alpha1.Cluster) []recordsv1alpha1.Record {
	child := objectOfReference(d.spec.Child)
	if d.over.IsZero() {
		return []recordsv1alpha1.Record{d.begun(c, child)}
	}
	r := newRecord(c, recordsv1alpha1.TypeResolved, child, d.over, d.spec.ID, d.since.UTC().Format(time.RFC3339))
	d.describe(&r)
	r.Message = d.why
	if a := d.approval; a != nil { // votes alone approve nothing
		r.Approval, r.Approvers = &recordsv1alpha1.Approval{Mode: string(a.Mode), Policy: a.Policy}, approversOf(a.By)
	}
	// Whether it was held or logged is not stored: one of the two exists.
	r.CausedBy = []string{d.beginID(c, child, recordsv1alpha1.TypeDriftHeld), d.beginID(c, child, recordsv1alpha1.TypeDriftLogged)}
	return []recordsv1alpha1.Record{r}
}

// begun returns the record of the first occurrence.
func (d *drift) begun(c recordsv1alpha1.Cluster, child recordsv1alpha1.Object) recordsv1alpha1.Record {
	of := recordsv1alpha1.TypeDriftHeld
	if d.logged {
		of = recordsv1alpha1.TypeDriftLogged
	}
	r := newRecord(c, of, child, d.since, d.spec.ID)
	d.describe(&r)
	if d.spec.User != "" {
		r.Actor = &recordsv1alpha1.Actor{User: d.spec.User}
		if q := d.spec.Request; q != nil {
			r.Actor.Via = q.FieldManager
		}
	}
	r.Reason = cmp.Or(string(d.holder), string(d.spec.Relation))
	r.Trace = hopsOf(d.parent, d.spec.Parent.Namespace)
	if own := d.parent.Own(); own != nil {
		r.CausedBy, r.Labels = ids(intentID(c, *own, d.spec.Parent.Namespace)), own.Labels
	}
	return r
}

func (d *drift) beginID(c recordsv1alpha1.Cluster, child recordsv1alpha1.Object, of recordsv1alpha1.Type) string {
	return recordsv1alpha1.ID(c, child, of, d.since, d.spec.ID)
}

// describe describes the difference in a record.
func (d *drift) describe(r *recordsv1alpha1.Record) {
	if d.spec.Parent.Kind != "" {
		r.Parent = new(objectOfReference(d.spec.Parent))
	}
	r.Operation, r.Differences, r.Causes = d.spec.Operation, ids(d.spec.ID), causesOf(d.spec.Causes)
	r.Paths = lists.Map(d.spec.Difference, func(f v1alpha1.FieldDifference) string { return f.Path })
}
