package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func approvalStamp(t time.Time) metav1.Time { return approval.Stamp(t) }

// set1 edits one annotation; nil removes it.
func (ev *evaluation) set1(key string, value *string) {
	if value != nil {
		ev.put(key, *value)
	} else if _, ok := ev.incoming[key]; ok {
		ev.change(key, nil)
	} else {
		delete(ev.d.Annotations, key)
	}
}

// put a value into one annotation.
func (ev *evaluation) put(key, value string) {
	if have, ok := ev.incoming[key]; ok && value == have {
		delete(ev.d.Annotations, key)
		return
	}
	changed := value // of its own, so that what is there already takes no memory
	ev.change(key, &changed)
}

func (ev *evaluation) change(key string, value *string) {
	if ev.d.Annotations == nil {
		ev.d.Annotations = map[string]*string{}
	}
	ev.d.Annotations[key] = value
}

// edit the object of an admitted request: protect annotations, write the trace,
// keep the claims, set the gate (spec 2, "Protection").
func (ev *evaluation) edit() {
	if ev.req.Object == nil || ev.d.Reason == ReasonComponent {
		return
	}
	ev.incoming = ev.req.Object.GetAnnotations()
	switch old := ev.req.OldObject; {
	case old == nil:
	case maps.EqualFunc(annotations(old), annotations(ev.req.Object), sameText):
		ev.stored = ev.incoming // as most writes leave them
	default:
		ev.stored = old.GetAnnotations()
	}
	if ev.req.Subresource != "" {
		ev.editLater()
		return
	}
	ev.protect()
	if !ev.validAnnotations() || !ev.writeTrace() {
		return
	}
	ev.keepApprovals()
	if !ev.writeAllowances() {
		return
	}
	ev.writeFingerprint()
	ev.gate()
}

// editLater is edit of a change through a subresource, which takes no
// annotations: the trace and the allowances are written once it landed.
func (ev *evaluation) editLater() {
	if ev.req.Subresource == SubresourceScale && ev.writeTrace() && ev.writeAllowances() {
		ev.d.Later, ev.d.Annotations = ev.d.Annotations, nil
	}
}

// controllerWrites reports whether the writer is a controller of the object or
// its parent, whose copies of user annotations count for nothing.
func (ev *evaluation) controllerWrites() bool {
	return ev.actor.controller || ev.d.Class == ClassSelf || subject.IsComposedApply(ev.manager) ||
		ev.d.Class == ClassNone && ev.req.Operation == Update && ev.metadataByController()
}

// metadataByController: a write without a desired-state change by somebody who
// is the object's own controller, or its parent's as far as the object tells.
func (ev *evaluation) metadataByController() bool {
	if ev.ownController() {
		return true
	}
	updaters := subject.ParseHashes(ev.stored[v1alpha1.AnnotationKeyUpdaters])
	return ev.hasParent && ev.req.User.IsMachine() && updaters.Has(ev.hash())
}

// protect the annotations of Kausality's domain.
func (ev *evaluation) protect() {
	for key := range ev.incoming {
		if v1alpha1.IsKausality(key) {
			ev.protectKey(key)
		}
	}
	for key := range ev.stored {
		if _, ok := ev.incoming[key]; !ok && v1alpha1.IsKausality(key) {
			ev.protectKey(key)
		}
	}
}

func (ev *evaluation) protectKey(key string) {
	old, was := ev.stored[key]
	if now, is := ev.incoming[key]; was == is && old == now {
		return
	}
	if ev.composed(key) || v1alpha1.IsUser(key) && !ev.controllerWrites() {
		return
	}
	if !was {
		ev.set1(key, nil)
		return
	}
	ev.put(key, old)
}

// composed annotations are honoured from a Composition: mode, deletion, trace
// labels, and what the composition function says it holds and remembers.
func (ev *evaluation) composed(key string) bool {
	if !subject.IsComposedApply(ev.manager) && ev.req.Actor != ActorParentController {
		return false
	}
	return key == v1alpha1.AnnotationKeyMode || key == v1alpha1.AnnotationKeyDeletion || key == v1alpha1.AnnotationKeyHeld ||
		key == v1alpha1.AnnotationKeySettledFields || key == v1alpha1.AnnotationKeySettledIntent || key == v1alpha1.AnnotationKeyHeldCreations ||
		strings.HasPrefix(key, v1alpha1.AnnotationKeyTraceLabelPrefix)
}

func (ev *evaluation) nextGeneration() int64 { return ev.req.nextGeneration() }

// nextGeneration after the write (spec 7): the API server bumps it after
// mutating admission.
func (r *Request) nextGeneration() int64 {
	if r.OldObject == nil {
		if r.Object.GetGeneration() == 0 && generationless[r.Kind.GroupKind().String()] {
			return 0
		}
		return 1
	}
	if g := r.OldObject.GetGeneration(); g > 0 {
		return g + 1
	}
	return 0
}

// generationless kinds of the core API: their CREATE cannot be told from that
// of a kind with a generation.
var generationless = map[string]bool{
	"ConfigMap": true, "Secret": true, "ServiceAccount": true, "Service": true, "Namespace": true, "Node": true,
	"Endpoints": true, "PersistentVolume": true, "PersistentVolumeClaim": true,
	"Role.rbac.authorization.k8s.io": true, "RoleBinding.rbac.authorization.k8s.io": true,
	"ClusterRole.rbac.authorization.k8s.io": true, "ClusterRoleBinding.rbac.authorization.k8s.io": true,
}

// writeTrace extends, replaces or keeps the trace, and the updaters with it. It
// refuses one that is too large.
func (ev *evaluation) writeTrace() bool {
	if ev.d.Class == ClassNone || ev.d.Class == ClassSelf {
		return true
	}
	ref := ev.req.ref()
	hop := trace.Hop(ref, ev.nextGeneration(), ev.req.User.Name, ev.req.Time)
	hop.Labels = trace.Labels(ev.after())
	hop.Approval = ev.actor.approval
	if ev.parent != nil && ev.d.Class != ClassNewOrigin {
		ev.d.Trace = trace.Extend(ev.trace, ev.parent.Ref, hop, ref.Namespace)
	} else {
		ev.d.Trace = trace.Trace{hop}
	}
	value := ev.d.Trace.String()
	ev.put(v1alpha1.AnnotationKeyTrace, value)
	ev.writeUpdaters()
	if len(value) > v1alpha1.MaxAnnotationBytes {
		_, _ = ev.refuse(refusal{code: codeComposed, reason: ReasonAnnotationTooLarge,
			why:  fmt.Sprintf("its trace would be %d bytes, more than the %d that fit", len(value), v1alpha1.MaxAnnotationBytes),
			next: "Shorten the trace-* labels of the objects above it."})
		return false
	}
	return true
}

func (ev *evaluation) writeUpdaters() {
	if !ev.hasParent || ev.hash() == "" {
		return
	}
	have := subject.ParseHashes(ev.stored[v1alpha1.AnnotationKeyUpdaters])
	var spare subject.Hashes
	if ev.parent != nil {
		spare = controllersOf(ev.parent)
	}
	ev.put(v1alpha1.AnnotationKeyUpdaters, have.With(ev.hash(), spare).String())
}

// keepApprovals brings the claims of a holder of approvals in step.
func (ev *evaluation) keepApprovals() {
	if !holds(ev.incoming) && !holds(ev.stored) {
		return
	}
	after := ev.after()
	if !holds(after) {
		return
	}
	generation, intent := ev.generations(after)
	for k, v := range approval.Admit(after, generation, intent, ev.req.Time) {
		ev.set1(k, v)
	}
}

// holds reports whether annotations hold approvals, or the record of some.
func holds(annotations map[string]string) bool {
	if annotations[v1alpha1.AnnotationKeyClaims] != "" {
		return true
	}
	for k := range annotations {
		if k == v1alpha1.AnnotationKeyApprovals || v1alpha1.IsApprove(k) {
			return true
		}
	}
	return false
}

// after are the annotations the write would leave.
func (ev *evaluation) after() map[string]string {
	out := map[string]string{}
	for k, v := range ev.incoming {
		out[k] = v
	}
	for k, v := range ev.d.Annotations {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}

// generations of the object after the write: its own and that of its last
// intent.
func (ev *evaluation) generations(after map[string]string) (generation, intent int64) {
	if len(ev.changes) > 0 || ev.req.OldObject == nil {
		generation = ev.nextGeneration()
	} else {
		generation = ev.req.OldObject.GetGeneration()
	}
	if own := trace.Of(after).Own(); own != nil {
		return generation, own.Generation
	}
	s := parent.Sum(ev.req.whole(), ev.kind.Role)
	hop, _ := trace.Intent(s)
	return generation, hop.Generation
}

// validAnnotations refuses a write that leaves user annotations that do not
// parse (spec 2). A controller's copy of one is no such write: it is undone.
func (ev *evaluation) validAnnotations() bool {
	written := ev.written()
	for _, key := range written {
		if err := approval.Validate(key, ev.incoming[key]); err != nil {
			_, _ = ev.refuse(refusal{code: codeComposed, reason: ReasonInvalidAnnotation,
				why: fmt.Sprintf("annotation %s does not parse: %v", key, err), next: "Nothing was changed; write it anew."})
			return false
		}
	}
	changed := slices.Concat(written, ev.removed())
	ev.d.Said = slices.ContainsFunc(changed, v1alpha1.NeedsApproverVerb)
	return ev.mayApprove(changed)
}

// removed are the user annotations that this write takes away, sorted.
func (ev *evaluation) removed() []string {
	var out []string
	for key := range ev.stored {
		_, kept := ev.incoming[key]
		if _, undone := ev.d.Annotations[key]; v1alpha1.IsUser(key) && !kept && !undone {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// written are the user annotations that this write sets, sorted.
func (ev *evaluation) written() []string {
	var out []string
	for key, value := range ev.incoming {
		old, was := ev.stored[key]
		if _, undone := ev.d.Annotations[key]; v1alpha1.IsUser(key) && !undone && (!was || old != value) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// mayApprove asks, where approver RBAC is on, whether the user may decide about
// what controllers do with this object (spec 2): unfreezing it is as much of a
// decision as freezing it. What a Composition sets is the
// word of whoever may write Compositions.
func (ev *evaluation) mayApprove(changed []string) bool {
	i := slices.IndexFunc(changed, v1alpha1.NeedsApproverVerb)
	if ev.Options.MayApprove == nil || i < 0 || subject.IsComposedApply(ev.manager) {
		return true
	}
	ok, err := ev.Options.MayApprove(ev.ctx, ev.req.User, ev.req.ref())
	switch {
	case err == nil && ok:
		return true
	case err == nil:
		_, _ = ev.refuse(refusal{code: 403, reason: ReasonApproverForbidden,
			why:  fmt.Sprintf("changing annotation %s needs the verb %q on %s", changed[i], VerbApprove, identity.Target(ev.req.ref(), ev.kind)),
			next: "Ask somebody who has it, or for a Role that gives it."})
		return false
	case ev.mode == v1alpha1.ModeLog:
		ev.warn(fmt.Sprintf("cannot ask whether you may set annotation %s (%v); it passes because the mode is log", changed[i], err))
		return true
	}
	_, _ = ev.refuse(refusal{code: codeInternal, reason: ReasonApproverForbidden,
		why: fmt.Sprintf("whether you may set annotation %s cannot be asked: %v", changed[i], err), next: "Try again."})
	return false
}
