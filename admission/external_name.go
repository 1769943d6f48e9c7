package admission

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/outcome"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// retargetedBelow decides about a managed resource below a composite that is deleted,
// which represents another external resource than when its gate was last opened or
// closed: an approval of the whole is not about that one (KR-13-18).
func (ev *evaluation) retargetedBelow(root *parent.State, blocked []*parent.State) (outcome.Verdict, deletion, bool) {
	i := slices.IndexFunc(blocked, gating.Retargeted)
	if i < 0 {
		return outcome.Verdict{}, deletion{}, false
	}
	mr := blocked[i]
	j := zJudge(ev.Facts, root, mr, "the external resource of "+identity.Describe(mr.Ref)+
		" is another one than before, and an approval of the whole is not about it")
	if mr.Parent.Name != "" {
		j.id = identity.DeletionID(&parent.State{Ref: mr.Parent}, mr) // that of the gate, wherever it is approved
	}
	j.blocked, j.mode = []*parent.State{mr}, v1alpha1.ModeEnforce
	v, d := ev.blockedDeletion(j)
	return v, d, true
}
