package gate

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/window"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// A window that opens changes no object. Gates come back by themselves (gating.Decision.Again); the composites of which
// something was refused or is held are woken like those below a freeze that ended (KR-14-16).

// ruleRef is what wakeQueue holds for an ApprovalRule.
func ruleRef(name string) parent.Ref {
	return parent.Ref{GroupVersionKind: v1alpha1.GroupVersion.WithKind(v1alpha1.KindApprovalRule), Name: name}
}

// noteWindows of all ApprovalRules, so that each wakes what waits when it opens.
func (w *waker) noteWindows() {
	if w.rules == nil {
		return
	}
	for _, name := range w.rules.Policies().Windowed() {
		w.queue.add(ruleRef(name))
	}
}

// ruleWindows of an ApprovalRule: how long until they may change, 0 for never. What waits for them is woken when they have opened.
func (w *waker) ruleWindows(name string) time.Duration {
	if w.rules == nil {
		return 0
	}
	now := clock.Now()
	state, windowed := w.rules.Policies().WindowsOf(name, now)
	if w.thaws.noteWindow(name, state, windowed) {
		w.thaw(func(*states.Object) bool { return true })
	}
	if state.Until.IsZero() {
		return 0
	}
	return max(state.Until.Sub(now), time.Second)
}

// noteWindow of a rule as it is now. opened reports that what waits is to be woken: it is open, and was not, or may not have
// been before this process led.
func (t *thaws) noteWindow(rule string, s window.State, windowed bool) (opened bool) {
	key := v1alpha1.KindApprovalRule + "/" + rule
	if !windowed {
		was, known := t.frozen.LoadAndDelete(key)
		return known && was == true
	}
	was, known := t.frozen.Swap(key, !s.Open)
	return s.Open && (!known || was == true)
}
