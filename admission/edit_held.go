package admission

import (
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission/approve"
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
	below := approve.HeldBelow(ed.ctx, ed.evaluation.Facts)
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
