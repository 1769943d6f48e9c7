package admission

import (
	"github.com/kausality-io/function-kausality/admission/authorize"
	"github.com/kausality-io/function-kausality/admission/outcome"
)

// authorize checks that the user may change these annotations, and what has the same effect. It returns nil where the user may.
func (ed *editor) authorize(changed []string) *outcome.Refusal {
	if !authorize.Needed(ed.evaluation.Facts) {
		return nil
	}
	w := authorize.Write{Facts: ed.evaluation.Facts, Incoming: ed.incoming, Stored: ed.stored, Self: ed.verdict.Class == outcome.ClassSelf,
		ByComposer: ed.byComposer, ByController: ed.byParentsController, Warnings: ed.warned()}
	return w.Refusal(ed.ctx, changed)
}
