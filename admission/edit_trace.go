package admission

import (
	"fmt"
	"slices"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// changesDesiredState reports whether the change has a class that is traced.
func (ed *editor) changesDesiredState() bool {
	return ed.verdict.Class != outcome.ClassNone && ed.verdict.Class != outcome.ClassSelf
}

// writeTrace extends or replaces the trace, and the updaters with it (KR-07-01). It
// refuses a trace that is too large (KR-07-05).
func (ed *editor) writeTrace() *outcome.Refusal {
	if !ed.changesDesiredState() {
		return nil
	}
	warnFrozen(ed)
	ed.warnHeld()
	ref := ed.Req.Ref()
	hop := trace.Hop(ref, ed.nextGeneration(), ed.Req.User.Name, parent.Written(ed.Req.OldObject, ed.Req.Object, ed.Req.Time))
	if trace.Labels(ed.incoming) != nil || trace.Labels(ed.stored) != nil {
		hop.Labels = trace.Labels(ed.after())
	}
	hop.Approval = ed.verdict.Approval
	ed.trace = ed.traceWith(ed.attributed(hop))
	value := ed.trace.String()
	ed.put(v1alpha1.AnnotationKeyTrace, value)
	writeInitiator(ed, hop.Generation)
	ed.writeUpdaters()
	if len(value) <= v1alpha1.MaxAnnotationBytes {
		return nil
	}
	return &outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonAnnotationTooLarge,
		Why:  fmt.Sprintf("its trace would be %d bytes, more than the %d that fit", len(value), v1alpha1.MaxAnnotationBytes),
		Next: "Shorten the trace-* labels of the objects above it."}
}

// writeInitiator adds who initiated the change to the authors of the object, where ApprovalRules are about the Namespace (KR-14-61).
func writeInitiator(ed *editor, generation int64) {
	if origin := ed.trace.Origin(); origin != nil && ed.PolicySet().HasRulesFor(ed.Req.Namespace) {
		ed.put(v1alpha1.AnnotationKeyAuthors, trace.WithInitiator(ed.stored, approve.Bounded(origin.User), generation))
	}
}

// writeUpdaters adds the user; users that write the parent's status are the last to
// be dropped (KR-02-04).
func (ed *editor) writeUpdaters() {
	if !ed.HasParent || ed.Hash() == "" {
		return
	}
	have := subject.ParseHashes(ed.stored[v1alpha1.AnnotationKeyUpdaters])
	var spare subject.Hashes
	if p := ed.parent(); p != nil {
		spare = subject.ControllersOf(p.Annotations).Hashes()
	}
	ed.put(v1alpha1.AnnotationKeyUpdaters, have.With(ed.Hash(), spare).String())
}

// writeFingerprint records the build that changed the object, and the upgrade that allowed it
// (KR-06-23). It does so whether or not an UpgradeAllowance exists: the first one would otherwise regard
// all builds as new (KR-13-49).
func (ed *editor) writeFingerprint() {
	if !ed.actor().Controller || !ed.changesDesiredState() {
		return
	}
	if ed.build().Fingerprint != "" {
		ed.put(v1alpha1.AnnotationKeyFingerprint, ed.build().Recorded())
	}
	if ed.verdict.Upgrade == nil {
		return
	}
	last := ed.Req.LastUpgrade()
	last.Name = ed.verdict.Upgrade.Name
	is, had := ed.build().Upgrade(ed.Req.Fingerprint())
	for _, f := range []string{had, is} {
		if f != "" && !slices.Contains(last.Fingerprints, f) {
			last.Fingerprints = append(slices.Clone(last.Fingerprints), f)
		}
	}
	if n := len(last.Fingerprints) - v1alpha1.MaxHashes; n > 0 {
		last.Fingerprints = last.Fingerprints[n:]
	}
	ed.put(v1alpha1.AnnotationKeyLastUpgrade, annotation.MustMarshal(last))
}
