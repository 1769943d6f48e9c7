package fn

import (
	"cmp"
	"sync"

	"k8s.io/utils/ptr"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// gate returns spec.managementPolicies of a resource as emitted, and sets the
// annotations that belong to it, where the Input has gate.managementPolicies:
// Managed (KR-09-11). nil leaves the field to the pipeline.
//
// An accepted change opens the gate in its own write, as the Decision has it; every
// other transition is for package gating. A mask is emitted on every run, since the
// apply would remove it.
func (r *run) gate(res *resource, set map[string]string) []string {
	switch {
	case !r.cfg.managed || !r.masks(res):
		return nil
	case res.observed != nil && res.observed.GetDeletionTimestamp() != nil:
		return asStored(res, set)
	case res.masked && !res.refused() && !res.changes():
		return nil // the mask of an earlier step is emitted
	case res.changes() && res.decision.Mode == v1alpha1.ModeEnforce:
		return r.asDecided(res, set)
	case res.observed == nil, res.replaced && !res.refused():
		return nil // created in mode log
	}
	return r.transition(res, set)
}

// masks reports whether a resource is of a kind with a gate.
func (r *run) masks(res *resource) bool {
	u := cmp.Or(res.current(), res.desired)
	return u != nil && r.world.Kind(u.GroupVersionKind()).ManagementPolicies
}

// gateKeys are the annotations that belong to a mask.
var gateKeys = []string{v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate}

// keepMask emits the mask of an earlier step, with its annotations, where this one
// has none to set (KR-09-12).
func keepMask(res *resource, set map[string]string) {
	for _, k := range append([]string{v1alpha1.AnnotationKeyUsedApprovals, v1alpha1.AnnotationKeyAllowances}, gateKeys...) {
		set[k] = ssa.AnnotationOf(res.desired.Object, k)
	}
}

// asStored emits the mask as it is. A gate without an author's value is a rest that
// may name approvals whose use is not finished; then nothing is masked.
func asStored(res *resource, set map[string]string) []string {
	for _, k := range gateKeys {
		set[k] = res.observed.Annotation(k)
	}
	if _, masked := mask.ParseAuthor(set[v1alpha1.AnnotationKeyManagementPolicies]); !masked {
		return nil
	}
	return res.observed.State().ManagementPolicies
}

// asDecided emits the mask of an accepted change.
func (r *run) asDecided(res *resource, set map[string]string) []string {
	for _, k := range gateKeys {
		set[k] = res.annotation(k, true)
	}
	d := &res.decision
	switch {
	case set[v1alpha1.AnnotationKeyManagementPolicies] == "":
		set[v1alpha1.AnnotationKeyGate] = ""
		return nil
	case d.Gate != nil:
		opened := *d.Gate
		opened.At = approval.Stamp(r.now) // the deadline counts from here
		set[v1alpha1.AnnotationKeyGate] = mask.FormatGate(opened)
	}
	if d.ManagementPolicies != nil {
		return d.ManagementPolicies
	}
	return parent.PoliciesOf(res.after)
}

// transition returns the management policies of an observed resource that does not change, and sets the
// annotations of its gate in set. nil leaves the policies as they are.
func (r *run) transition(res *resource, set map[string]string) []string {
	d := r.gating(res).Decide()
	if !res.observed.Guarded() { // else the gate reports it
		res.outside, res.outsideLacks = d.Drift, d.Lacks
	}
	switch d.Action {
	case gating.ActionRestore:
		if res.refused() {
			return d.Policies // what is held repeats the observed mask
		}
		return nil
	case gating.ActionNone:
		return asStored(res, set)
	}
	set[v1alpha1.AnnotationKeyManagementPolicies] = mask.FormatAuthor(d.Author)
	set[v1alpha1.AnnotationKeyGate] = mask.FormatGate(d.Gate)
	for k, v := range d.Annotations {
		set[k] = ptr.Deref(v, "")
	}
	if d.Claim != nil {
		res.opens = d.Claim.Entry.Content
		r.composite.Take(res.opens)
	}
	return d.Policies
}

// gating returns what package gating needs to decide about the gate of an observed resource. The
// composite is the only holder of approvals that a request shows, and as live as it can be.
func (r *run) gating(res *resource) gating.Managed {
	res.observed.Whole()
	mr := r.owned(res)
	xr := identity.Holder{State: r.composite.State, Kind: r.world.Kind(r.composite.State.GroupVersionKind)}
	if !res.observed.Guarded() {
		xr.State = verified(r)
	}
	if a := res.decision.Approve; a != nil { // the approval that a policy gives, which the function cannot write
		xr.State = offline.Annotated(xr.State, a.Key, a.Value)
	}
	xr.Covering = r.policies.Covering(xr.State)
	if approval.Holds(xr.State.Annotations) {
		if r.deletes == nil {
			r.deletes = sync.OnceValues(func() (identity.Whole, bool) { return offline.Whole(r.composite.State, r.observed, r.world.role) })
		}
		xr.Whole = r.deletes
	}
	state := parent.Sum(mr, parent.RoleManaged)
	configured, mode := r.policies.Settings(state.Ref, state.Labels), res.decision.Mode
	if configured.Suspended { // nothing is refused, and the gate stays: not that of mode log
		mode = r.policies.Mode(state, configured, r.cfg.mode)
	}
	g := gating.Of(state, r.world.Kind(mr.GroupVersionKind()), gating.Observe(mr, r.world.secrets), configured, gating.Defaults{})
	g.Mode, g.Policies, g.Holders, g.Covering, g.Live = mode, r.guarded, []identity.Holder{xr}, r.policies.Covering(state), true
	g.ByFunction, g.Now = true, r.now
	return g
}
