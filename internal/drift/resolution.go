package drift

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/records"
)

// Resolve a drift, once. why is a clause for users. by is the approval that resolved it; nil for none, and if it is not known (KR-14-63).
// If one user approved it alone, that is reported and counted, with an event (KR-14-43).
func (r *Reporter) Resolve(ctx context.Context, d *v1alpha1.Drift, why string, by *v1alpha1.HopApproval) error {
	if d.Status.Phase == v1alpha1.DriftResolved {
		return nil
	}
	r.forget(d.Spec.ID)
	r.forget(d.Spec.ID + keyRecurs)
	for _, user := range append(slices.Clone(d.Status.Requesters), d.Status.RepeatFor) {
		r.forget(d.Spec.ID + "/" + user)
	}
	if err := r.approved(ctx, d, why); err != nil {
		return err
	}
	glass := approval.BrokenGlass(by)
	d, err := editStatus(ctx, r.Client, d, func(s *v1alpha1.DriftStatus) {
		s.Phase, s.Resolution, s.Approval, s.BrokenGlass = v1alpha1.DriftResolved, why, by.DeepCopy(), glass
		s.Ruling = nil
	})
	if err != nil {
		return fmt.Errorf("cannot resolve drift: %w", err)
	}
	if d == nil {
		return nil
	}
	if r.Records.Enabled() {
		r.Records.Add(records.OfResolution(d, clock.Now()))
	}
	if glass != nil {
		r.glassBroken(d, glass)
	}
	return nil
}

// approved ends what else allows a difference that is over because it was approved. It runs first, so that it is repeated if the process ends before
// the Drift is resolved.
func (r *Reporter) approved(ctx context.Context, d *v1alpha1.Drift, why string) error {
	if why != settling.WhyApproved || r.Approved == nil {
		return nil
	}
	on := []v1alpha1.ObjectReference{d.Spec.Parent}
	if d.Spec.Relation == v1alpha1.RelationExternal && d.Spec.Child.UID != d.Spec.Parent.UID {
		on = append(on, d.Spec.Child)
	}
	for _, o := range on {
		if o.Name == "" {
			continue
		}
		err := r.Approved(ctx, identity.Ref(o), d.Spec.ID)
		switch {
		case kerrors.IsForbidden(err) || kerrors.IsInvalid(err): // a Drift must not stay open for ever, nor a gate wait for it
			r.Log.Error(err, "cannot end the approvals that are left over", "drift", d.Name, "object", o.Name)
		case err != nil:
			return fmt.Errorf("cannot end the approvals that are left over: %w", err)
		}
	}
	return nil
}

// glassBroken counts a change that one user approved alone, and emits an event about its parent, or about a child without a parent.
func (r *Reporter) glassBroken(d *v1alpha1.Drift, by *v1alpha1.Vote) {
	brokenGlass.WithLabelValues(string(d.Spec.Relation)).Inc()
	r.emit(d, corev1.EventTypeWarning, "GlassBroken", by.User+" approved alone that "+identity.Describe(identity.Ref(d.Spec.Child))+" is changed: "+by.BreakGlass+
		". The report and kubectl kausality explain have the difference.")
}

// emit an event about the parent of a drift, or the child.
func (r *Reporter) emit(d *v1alpha1.Drift, kind, reason, text string) {
	if r.Events == nil {
		return
	}
	o := d.Spec.Parent
	if o.Name == "" {
		o = d.Spec.Child
	}
	about := &corev1.ObjectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: cmp.Or(o.Namespace, d.Namespace), Name: o.Name, UID: o.UID}
	r.Events.Eventf(about, nil, kind, reason, reason, "%s", text)
}
