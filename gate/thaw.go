package gate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/window"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// The controller of a parent sees the removal of a freeze from the parent. The end of any other freeze changes nothing
// that Crossplane watches, and refusals during a freeze create no Drift (KR-14-37).

// thaws remembers which Namespaces and policies are frozen, and which composites wait to be woken since a freeze ended. It is
// safe for concurrent use; the zero value is empty.
type thaws struct {
	frozen  sync.Map // of names, with their kind; also of ApprovalRules, whether their windows are closed
	waiting sync.Map // of parent.Ref without UID
}

// policyKind of the policies that may have a freeze.
const policyKind = "Kausality"

// namespaceKind of what wakeQueue holds for a Namespace.
const namespaceKind = "Namespace"

func namespaceRef(name string) parent.Ref {
	return parent.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: namespaceKind}, Name: name}
}

// noteFreeze of a Namespace or policy as it is now. left is how long it lasts, 0 for no end. ended reports that a freeze was in force
// before and is not any more, so that what it froze is to be woken.
func (t *thaws) noteFreeze(key string, f *v1alpha1.Freeze, now time.Time) (left time.Duration, ended bool) {
	if f != nil && !approval.Ended(f.Expiry, now) {
		t.frozen.Store(key, true)
		if f.Expiry != nil {
			left = f.Expiry.Sub(now)
		}
		return left, false
	}
	_, was := t.frozen.LoadAndDelete(key)
	return 0, was || f != nil
}

// frozenNamespace is called when what is declared on a Namespace changed, and when its freeze ends.
func (w *waker) frozenNamespace(ctx context.Context, name string) (time.Duration, error) {
	ns, err := w.cluster.Namespaces.Get(ctx, name, false)
	if err != nil {
		return 0, err
	}
	var f *v1alpha1.Freeze
	if ns.Freeze != "" && !ns.Terminating {
		f = approval.Parse(map[string]string{v1alpha1.AnnotationKeyFreeze: ns.Freeze}).Freeze
	}
	left, ended := w.thaws.noteFreeze(namespaceKind+"/"+name, f, clock.Now())
	if ended {
		w.thaw(func(o *states.Object) bool { return concerns(o, name) })
	}
	return left, nil
}

// concerns reports whether a composite is in a Namespace, or composes something there.
func concerns(o *states.Object, namespace string) bool {
	return o.State.Namespace == namespace || slices.ContainsFunc(o.Children, func(child parent.Ref) bool { return child.Namespace == namespace })
}

// frozenPolicy is called when a Kausality policy changed, and when its freeze ends.
func (w *waker) frozenPolicy(name string) time.Duration {
	var f *v1alpha1.Freeze
	if frozen, ok := w.cluster.Policies.Set().Frozen()[name]; ok {
		f = &frozen.Freeze
	}
	left, ended := w.thaws.noteFreeze(policyKind+"/"+name, f, clock.Now())
	if ended {
		w.thaw(func(*states.Object) bool { return true })
	}
	return left
}

// thaw what a freeze held back: gates are decided about again, and the composites that f selects are woken.
func (w *waker) thaw(f func(*states.Object) bool) {
	w.scope.recheckAll()
	for _, i := range w.cluster.Kinds.All() {
		if role := i.Kind.Role; role != parent.RoleComposite && role != parent.RoleClaim {
			continue
		}
		for _, o := range w.cluster.States.List(i.GVK) {
			if held(o) && f(o) {
				w.thaws.waiting.Store(withoutUID(o.State.Ref), true)
				w.queue.add(withoutUID(o.State.Ref))
			}
		}
	}
}

// held reports whether a composite shows that something of it was refused or is held.
func held(o *states.Object) bool {
	k, ok := o.Condition(v1alpha1.ConditionKausality)
	return !o.True("Synced") || ok && k.Status == metav1.ConditionFalse
}

// ownFreeze returns how long until the freeze of a composite expires; 0 for no freeze or no expiry. An expired freeze wakes the composite.
func (w *waker) ownFreeze(ref parent.Ref) time.Duration {
	o := w.cluster.States.Cached(ref)
	if o == nil || o.Annotations[v1alpha1.AnnotationKeyFreeze] == "" {
		return 0
	}
	f, now := approval.Parse(o.Annotations).Freeze, clock.Now()
	switch {
	case f == nil || f.Expiry == nil:
		return 0
	case !approval.Ended(f.Expiry, now):
		return f.Expiry.Sub(now)
	case held(o):
		w.thaws.waiting.Store(withoutUID(ref), true)
	}
	return 0
}

// noteFreezes of all Namespaces when this process begins to lead, so that the end of each wakes what it holds.
func (w *waker) noteFreezes() {
	for _, name := range w.cluster.Namespaces.Frozen() {
		w.queue.add(namespaceRef(name))
	}
}

// freezeChanged is called for each change of a composite: when its freeze has an expiry, nothing else happens then.
func (w *waker) freezeChanged(old, new *states.Object) {
	if new == nil || !w.scope.wakesHere() || new.Role != parent.RoleComposite && new.Role != parent.RoleClaim {
		return
	}
	value := new.Annotations[v1alpha1.AnnotationKeyFreeze]
	if value != "" && (old == nil || old.Annotations[v1alpha1.AnnotationKeyFreeze] != value) {
		w.queue.add(withoutUID(new.State.Ref))
	}
}

// noteFrozenPolicies queues the policies that are frozen, or were.
func (w *waker) noteFrozenPolicies() {
	add := func(name string) {
		w.queue.add(parent.Ref{GroupVersionKind: v1alpha1.GroupVersion.WithKind(policyKind), Name: name})
	}
	for name := range w.cluster.Policies.Set().Frozen() {
		add(name)
	}
	w.thaws.frozen.Range(func(key, _ any) bool {
		if name, is := strings.CutPrefix(key.(string), policyKind+"/"); is {
			add(name)
		}
		return true
	})
}

// A window that opens changes no object. Gates come back by themselves (gating.Decision.Again); the composites of which
// something was refused or is held are woken like those below a freeze that ended (KR-14-16).

// ruleRef returns what wakeQueue holds for an ApprovalRule.
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

// ruleWindows returns how long until the windows of an ApprovalRule may change; 0 for never. It wakes what waits for them once they open.
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

// noteWindow of a rule as it is now. opened reports that what waits is to be woken: the window is open, and was closed before, or
// may have been before this process led.
func (t *thaws) noteWindow(rule string, s window.State, windowed bool) (opened bool) {
	key := v1alpha1.KindApprovalRule + "/" + rule
	if !windowed {
		was, known := t.frozen.LoadAndDelete(key)
		return known && was == true
	}
	was, known := t.frozen.Swap(key, !s.Open)
	return s.Open && (!known || was == true)
}
