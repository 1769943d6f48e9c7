package gating

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// VerbsOfRun returns the verbs for which a change opens the gate of a managed resource, of those that it was granted. A Workspace whose run
// may apply and destroy is not opened for Delete: that is its own deletion. What its run may destroy is recorded (KR-08-68).
func VerbsOfRun(gk schema.GroupKind, granted []v1alpha1.Verb) (verbs []v1alpha1.Verb, destroys bool) {
	if !verb.IsWorkspace(gk) || !slices.Contains(granted, v1alpha1.VerbUpdate) || !slices.Contains(granted, v1alpha1.VerbDelete) {
		return granted, false
	}
	return notDelete(granted), true
}

// letDestroy lets the run that an open gate of a Workspace is open for destroy, where an approval names both: its plan may have been refused for
// that alone. The deadline stays.
func (g Managed) letDestroy(author []string, gate v1alpha1.Gate) (Decision, bool) {
	if gate.Destroys || !slices.Contains(gate.Verbs, v1alpha1.VerbUpdate) {
		return Decision{}, false
	}
	verbs := []v1alpha1.Verb{v1alpha1.VerbUpdate}
	digest := identity.DriftDigest(g.owner().State, g.MR, unknownDifference)
	for _, h := range g.Holders {
		set := h.Decisions(g.Now)
		set.Approvals = slices.DeleteFunc(set.Approvals, func(e approval.Entry) bool { return !ofRun(g.MR.GroupKind(), e) })
		g.adoptPendingClaims(set.Claims, gate, digest.ID())
		m, ok := set.Approved(g.query(h.State, verbs, digest))
		if !ok || m.Claimed != nil && HasUse(gate, m.Claimed.ID) || g.stopped(verbs) != "" {
			continue
		}
		d := g.open(author, gate, h, set, m, digest.ID(), verbs, nil)
		d.Gate.Destroys = true
		return d, true
	}
	return Decision{}, false
}

// ofRun reports whether an approval with Delete is one of a run that may destroy, and not of the deletion: it names both for a Workspace.
func ofRun(gk schema.GroupKind, e approval.Entry) bool {
	return e.Digest == "" && destroys(gk, e) && names(gk, e, v1alpha1.VerbUpdate)
}

// planDestroys reports whether an approval of what a plan would change lets its run destroy: by the id of that difference, or by name.
func planDestroys(gk schema.GroupKind, diff []change.Change, e approval.Entry) bool {
	return external.PlanDestroys(diff) && (e.Digest != "" || destroys(gk, e))
}

// destroys reports whether an approval lets the run of a Workspace destroy.
func destroys(gk schema.GroupKind, e approval.Entry) bool {
	return verb.IsWorkspace(gk) && names(gk, e, v1alpha1.VerbDelete)
}

// names reports whether an approval has a verb, or one that means it; not by "*".
func names(gk schema.GroupKind, e approval.Entry, wanted v1alpha1.Verb) bool {
	return slices.ContainsFunc(e.Verbs, func(v v1alpha1.Verb) bool {
		return v != v1alpha1.VerbAll && slices.Contains(verb.Of(gk).Means(string(v)), wanted)
	})
}
