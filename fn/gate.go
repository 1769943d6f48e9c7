package fn

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/fn/ssa"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// gate works out spec.managementPolicies of a managed resource and the
// annotations that go with it, where the Input asks the function to (gate:
// Managed). An accepted change opens the gate in its own write, as the Decision
// has it; every other transition is the gate's machine's (gating.Managed). nil
// leaves the field to the pipeline. What is masked once is emitted on every run:
// the apply would remove it.
func (r *run) gate(res *resource, set map[string]string) []string {
	if !r.cfg.managed || !r.managed(res) {
		return nil
	}
	switch {
	case res.observed != nil && res.observed.GetDeletionTimestamp() != nil:
		return r.asStored(res, set)
	case res.masked && !res.refused() && !res.changes():
		return nil // the mask of an earlier step stays
	case res.changes() && res.decision.Mode == v1alpha1.ModeEnforce:
		return r.asDecided(res, set)
	case res.observed == nil, res.replaced && !res.refused():
		return nil // created in mode log
	}
	return r.transition(res, set)
}

// gateKeys are the annotations that go with a mask.
var gateKeys = []string{v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate}

// unmask what is wanted, where an earlier Kausality step of the pipeline masked
// it: what its author wants is decided about.
func (res *resource) unmask() {
	if res.desired == nil {
		return
	}
	spec := ssa.Child(res.desired.Object, "spec")
	annotations := ssa.Child(ssa.Child(res.desired.Object, "metadata"), "annotations")
	author, ok := mask.ParseAuthor(ssa.Text(annotations, v1alpha1.AnnotationKeyManagementPolicies))
	if !ok || spec["managementPolicies"] == nil {
		return
	}
	list := make([]any, 0, len(author))
	for _, p := range author {
		list = append(list, p)
	}
	spec["managementPolicies"], res.masked = list, true
}

// keepMask of an earlier step, with its annotations, where this one has none to
// make (KR-09-12).
func (res *resource) keepMask(set map[string]string) {
	annotations := ssa.Child(ssa.Child(res.desired.Object, "metadata"), "annotations")
	for _, k := range append([]string{v1alpha1.AnnotationKeyUsedApprovals, v1alpha1.AnnotationKeyAllowances}, gateKeys...) {
		if delete(set, k); ssa.Text(annotations, k) != "" {
			set[k] = ssa.Text(annotations, k)
		}
	}
}

// managed masks a managed resource by the rules of the gate (KR-09-11).
func (r *run) managed(res *resource) bool {
	u := res.observed
	if u == nil {
		u = res.desired
	}
	return u != nil && r.world.Kind(u.GroupVersionKind()).ManagementPolicies
}

// remembers an author's value: it was masked before.
func (res *resource) remembers() bool {
	_, ok := mask.ParseAuthor(res.annotation(v1alpha1.AnnotationKeyManagementPolicies))
	return ok
}

func (r *run) asStored(res *resource, set map[string]string) []string {
	for _, k := range gateKeys {
		if v := res.annotation(k); v != "" {
			set[k] = v
		}
	}
	if !res.remembers() {
		return nil // what is left of a gate may name approvals that are not finished
	}
	return res.state().ManagementPolicies
}

// asDecided takes the mask from the core.
func (r *run) asDecided(res *resource, set map[string]string) []string {
	for _, k := range gateKeys {
		v := res.annotation(k)
		if res.observed != nil && res.replaced {
			v = ""
		}
		if edit, ok := res.decision.Annotations[k]; ok {
			v = ""
			if edit != nil {
				v = *edit
			}
		}
		if v != "" {
			set[k] = v
		}
	}
	if _, masked := set[v1alpha1.AnnotationKeyManagementPolicies]; !masked {
		delete(set, v1alpha1.AnnotationKeyGate)
		return nil
	}
	if g := res.decision.Gate; g != nil {
		opened := *g
		opened.At = approval.Stamp(r.now) // the deadline counts from here
		set[v1alpha1.AnnotationKeyGate] = mask.FormatGate(opened)
	}
	if p := res.decision.ManagementPolicies; p != nil {
		return p
	}
	return policiesOf(res.after)
}

func policiesOf(u *unstructured.Unstructured) []string {
	list, ok := ssa.Child(u.Object, "spec")["managementPolicies"].([]any)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, _ := e.(string)
		out = append(out, s)
	}
	return out
}

// transition of the gate as its machine decides about the observed resource.
func (r *run) transition(res *resource, set map[string]string) []string {
	d := r.gating(res).Decide()
	switch d.Action {
	case gating.ActionRestore:
		if res.refused() {
			return d.Policies // what is held repeats the observed mask
		}
		return nil
	case gating.ActionNone:
		return r.asStored(res, set)
	}
	set[v1alpha1.AnnotationKeyManagementPolicies] = mask.FormatAuthor(d.Author)
	set[v1alpha1.AnnotationKeyGate] = mask.FormatGate(d.Gate)
	for k, v := range d.Annotations {
		if delete(set, k); v != nil {
			set[k] = *v
		}
	}
	if d.Claim != nil {
		res.opens = d.Claim.Entry.Content
		r.composite.take(res.opens)
	}
	return d.Policies
}

// gating of a managed resource as it is observed. The composite is the one
// holder of approvals that a request shows, and as live as it gets.
func (r *run) gating(res *resource) gating.Managed {
	res.whole()
	mr := r.before(res)
	xr := identity.Holder{State: r.composite.state, Kind: r.world.Kind(r.composite.state.GroupVersionKind)}
	if a := res.decision.Approve; a != nil { // by a policy, which nothing here can write
		xr.State = annotated(xr.State, a.Key, a.Value)
	}
	return gating.Managed{
		MR: parent.Sum(mr, parent.RoleManaged), Kind: r.world.Kind(mr.GroupVersionKind()), Mode: res.decision.Mode,
		Difference: external.Difference(mr.Object), Comparable: external.Comparable(mr.Object), Gone: external.Gone(external.SyncedMessage(mr.Object)),
		Holders: []identity.Holder{xr}, Live: true, Deadline: gating.DefaultDeadline, By: gating.MoverFunction, Now: r.now,
	}
}
