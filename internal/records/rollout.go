package records

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/parent"
	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// rollout that entered another phase or wave, or that was voted for.
type rollout struct {
	ref         parent.Ref
	generation  int64
	cause       v1alpha1.RolloutCause
	before, now v1alpha1.RolloutStatus
	at          time.Time
}

// OfRollout returns what is recorded when the status of a Rollout was written at a time: its votes, and the phase and wave that it entered (KR-16-13). nil
// where neither changed.
func OfRollout(ref parent.Ref, generation int64, spec *v1alpha1.RolloutSpec, before, now *v1alpha1.RolloutStatus, at time.Time) Occurrence {
	if before.Phase == now.Phase && before.Wave == now.Wave && len(before.Votes) == len(now.Votes) {
		return nil
	}
	return &rollout{ref: ref, generation: generation, cause: spec.Cause, before: *before.DeepCopy(), now: *now.DeepCopy(), at: at}
}

// Records returns the records of the Rollout.
func (o *rollout) Records(c recordsv1alpha1.Cluster) (out []recordsv1alpha1.Record) {
	object, plan := objectOf(o.ref), ""
	object.Generation = o.generation
	if o.now.Plan != nil {
		plan = o.now.Plan.ID
	}
	var causedBy []string
	for _, v := range o.now.Votes {
		r := newRecord(c, recordsv1alpha1.TypeVote, object, v.At.Time)
		r.ID = voteID(c, object, plan, v)
		causedBy = append(causedBy, r.ID)
		if slices.ContainsFunc(o.before.Votes, func(old v1alpha1.Vote) bool { return old.User == v.User && old.At.Equal(&v.At) }) {
			continue
		}
		r.Actor = &recordsv1alpha1.Actor{User: v.User, Via: v.Via, OnBehalfOf: v.OnBehalfOf}
		r.Differences, r.Causes = ids(plan), o.causes()
		out = append(out, r)
	}
	if o.before.Phase == o.now.Phase && o.before.Wave == o.now.Wave {
		return out
	}
	r := newRecord(c, recordsv1alpha1.TypeRollout, object, o.at, plan, string(o.now.Phase), generation(int64(o.now.Wave)))
	r.Reason, r.Differences, r.Causes, r.CausedBy, r.Approvers = string(o.now.Phase), ids(plan), o.causes(), causedBy, approversOf(o.now.Votes)
	r.Message = cmp.Or(o.now.Message, fmt.Sprintf("wave %d of %d", o.now.Wave, len(o.now.Waves)))
	return append(out, r)
}

// causes whose changes it lets pass.
func (o *rollout) causes() (out []recordsv1alpha1.Cause) {
	for _, k := range []struct {
		kind v1alpha1.CauseKind
		name string
	}{
		{v1alpha1.CauseComposition, o.cause.CompositionRevision}, {v1alpha1.CauseFunction, o.cause.FunctionRevision}, {v1alpha1.CauseImage, o.cause.Image},
		{v1alpha1.CauseController, o.cause.Controller}, {v1alpha1.CauseUser, o.cause.User},
	} {
		if k.name != "" {
			out = append(out, recordsv1alpha1.Cause{Kind: string(k.kind), Name: k.name})
		}
	}
	return out
}
