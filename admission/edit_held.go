package admission

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// warnHeld warns a user who changes an object while changes of its children are held. The warning
// names them: they remain held as far as this change does not request them (KR-05-61).
func (ed *editor) warnHeld() {
	if ed.Req.OldObject == nil || ed.Req.User.IsMachine() {
		return
	}
	below := heldBelow(ed.ctx, ed.evaluation.Facts)
	if n := len(below); n > 0 {
		names := make([]string, 0, maxWarned)
		for _, b := range below[:min(n, maxWarned)] {
			names = append(names, b.String())
		}
		if n > maxWarned {
			names = append(names, fmt.Sprintf("and %d more", n-maxWarned))
		}
		ed.warnings.Add("changes below " + identity.Describe(ed.Req.Ref()) + " are held from before: " + strings.Join(names, "; ") +
			"; what this change does not request " + ed.fate() + " (kubectl kausality pending)")
		return
	}
	if ed.Kind.Role != parent.RoleComposite {
		return
	}
	p := parent.Outline(ed.Req.Whole(), ed.Kind.Role)
	if c, ok := p.Condition(v1alpha1.ConditionKausality); ok && c.Reason == v1alpha1.ConditionReasonHeld {
		ed.warnings.Add("changes of resources below " + identity.Describe(ed.Req.Ref()) +
			" are held from before: what this change does not request remains held until it is approved (kubectl kausality pending)")
	}
}

// warnFrozen warns a user who changes an object while changes of its children are refused, because it is frozen (KR-05-61).
func warnFrozen(ed *editor) {
	if ed.Req.OldObject == nil || ed.Req.User.IsMachine() || ed.Req.OldObject.GetDeletionTimestamp() != nil {
		return
	}
	o := &parent.State{Ref: ed.Req.Ref(), Role: ed.Kind.Role, Labels: ed.Req.Object.GetLabels(), Annotations: ed.after()}
	freeze, err := ed.evaluation.FreezeOf(ed.ctx, o, false)
	parents := ed.Kind.Role == parent.RoleComposite || ed.Kind.Role == parent.RoleClaim
	if err != nil || freeze == nil || !parents && (freeze.Namespace != "" || freeze.Policy != "") {
		return
	}
	ed.warnings.Add(freeze.Why() + ": this change is stored, and is carried out below it once the freeze ends")
}

// fate describes what happens to the held changes, by the policy of the object: its children usually
// have the same policy.
func (ed *editor) fate() string {
	if ed.Settings.MixedCauses == v1alpha1.MixedCausesAdmit {
		return "is applied with it"
	}
	return "remains held until it is approved"
}

// maxWarned is the number of held changes that a warning names.
const maxWarned = 5

// heldBelow returns what is held of the object's children and theirs.
func heldBelow(ctx context.Context, f *facts.Facts) []Below {
	if f.Req.OldObject == nil {
		return nil
	}
	return f.World.Below(ctx, parent.Family(f.Req.OldObject, f.Kind.Role))
}

// knownApprovals returns a function that looks up the differences which approvals on the object are about, by their ids: since which
// intent generation one of the object's children's is held, before which an approval of it is not stale (KR-05-58), and the
// digests of those that were refused or reported (KR-13-68). What the composition function holds is known by its condition where
// the composed resource does not show it: none of its approvals is stale then.
func knownApprovals(ctx context.Context, f *facts.Facts) approval.Lookup {
	below, function := map[string]approval.Known{}, false
	for _, b := range heldBelow(ctx, f) {
		if !b.Own {
			continue
		}
		k, had := below[b.ID]
		if !had {
			k = approval.Known{Named: true, Since: b.Since}
		}
		k.Since = min(k.Since, b.Since)
		if b.Digest != "" && !slices.Contains(k.Digests, b.Digest) {
			k.Digests = append(k.Digests, b.Digest)
		}
		below[b.ID] = k
	}
	if f.Kind.Role == parent.RoleComposite && f.Req.OldObject != nil {
		c, ok := parent.Outline(f.Req.Whole(), f.Kind.Role).Condition(v1alpha1.ConditionKausality)
		function = ok && c.Reason == v1alpha1.ConditionReasonHeld
	}
	return func(id string) (approval.Known, bool) {
		k, is := below[id]
		reported := f.World.Known(id)
		for _, d := range reported.Digests {
			if !slices.Contains(k.Digests, d) {
				k.Digests = append(slices.Clip(k.Digests), d)
			}
		}
		if !is && !function {
			k.Since = math.MaxInt64
		}
		k.Named = is || reported.Is()
		return k, k.Named || function
	}
}
