package admission

import (
	"cmp"
	"context"
	"errors"

	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// unrequested reports whether no intent of the parent explains the change. What an AllowancePolicy alone
// makes drift of follows from an intent (KR-04-14).
func (ev *evaluation) unrequested() bool {
	return ev.class.class == outcome.ClassDrift || ev.needsApproval()
}

// attributed returns the hop of a change that may pass as drift: why it passes, and what caused it (KR-07-09,
// KR-07-10).
func (ed *editor) attributed(hop v1alpha1.Hop) v1alpha1.Hop {
	if hop.Passed = ed.verdict.Passed(); hop.Passed != "" {
		if hop.Unrequested = ed.unrequested(); ed.effectiveClass() == outcome.ClassDrift || hop.Unrequested {
			hop.Causes = ed.attribution()
		}
	} else if ed.verdict.Both {
		hop.Causes = ed.attribution() // beside the intent (KR-05-57)
	}
	return hop
}

// attribution returns the causes of a change that counts as drift: the edits by other users that it reverts, and
// the other causes unless it reverts edits alone (KR-07-14), at most v1alpha1.MaxHopCauses.
// Authors, whose votes may not count, are those of causes: no edit hides one.
func (ev *evaluation) attribution() []v1alpha1.HopCause {
	if !ev.reported.Known { // get would allocate a closure for each request
		found := findAttribution(ev)
		n := min(len(found), v1alpha1.MaxHopCauses)
		ev.reported = facts.Memo[[]v1alpha1.HopCause]{Value: found[:n:n], Known: true}
	}
	return ev.reported.Value
}

// findAttribution returns what attribution does. Where the manager of a user's change is unknown, the controller's own fields would pass for edits.
func findAttribution(ev *evaluation) []v1alpha1.HopCause {
	unknown := ev.Manager == "" && ev.Req.User.Name != ""
	if unknown || ev.needsApproval() || ev.Req.Operation != Update || ev.Req.OldObject == nil || len(ev.Req.ManagedFields()) == 0 {
		return ev.caused().list
	}
	written := identity.Annotation(ev.Req.OldObject, v1alpha1.AnnotationKeyTrace)
	edits, all := authorship.Edits(ev.Req.ManagedFields(), written, ev.Changes, ev.Manager)
	if len(edits) == 0 {
		return ev.caused().list
	}
	for i := range edits {
		edits[i].Name, edits[i].Manager = approve.Bounded(edits[i].Name), approve.Bounded(edits[i].Manager)
	}
	if !all {
		edits = append(edits, ev.caused().list...)
	}
	return edits
}

// causes of a change.
type causes struct {
	list []v1alpha1.HopCause
	// unread are those whose authors could not be read.
	unread []string
}

// caused returns the causes of a change that counts as drift: all those that cannot be excluded (KR-07-10). A cause that the build of
// the child's last change excludes is left out. They are not modified.
func (ev *evaluation) caused() causes {
	if !ev.causes.Known { // get would allocate a closure for each request
		ev.causes = facts.Memo[causes]{Value: findCauses(ev), Known: true}
	}
	return ev.causes.Value
}

// findCauses returns the causes of a change that counts as drift.
func findCauses(ev *evaluation) causes {
	if ev.needsApproval() {
		return causes{list: []v1alpha1.HopCause{cause(v1alpha1.CauseUser, ev.Req.User.Name)}}
	}
	out, build := []v1alpha1.HopCause(nil), ev.build()
	if had, images := ev.Req.Fingerprint(); had == "" || had != build.Fingerprint || ev.Req.Held != nil { // which the rest of a change may have recorded
		if rev := ev.parent().CompositionRevision; rev != "" {
			out = append(out, cause(v1alpha1.CauseComposition, rev))
		}
		if rev := build.Graph.Name; rev != "" {
			out = append(out, cause(v1alpha1.CauseGraph, rev))
		}
		// Beside others only where the controller is known to run other images than before (KR-10-13).
		if len(out)+len(build.Functions) == 0 || images != "" && build.Controller != "" && images != build.Controller {
			for _, image := range build.Images {
				out = append(out, cause(v1alpha1.CauseImage, image))
			}
		}
		for _, f := range build.Functions {
			out = append(out, cause(v1alpha1.CauseFunction, f))
		}
	}
	if by := cmp.Or(ev.Req.User.Name, ev.Req.Controller); len(out) == 0 && by != "" {
		out = append(out, cause(v1alpha1.CauseController, by))
	}
	return authored(ev, out...)
}

// authored returns causes with their authors, where they are known (KR-07-11). No others are read once the API server has not answered in time:
// no vote that depends on authors counts then.
func authored(ev *evaluation, list ...v1alpha1.HopCause) causes {
	out := causes{list: list}
	var err error
	for i, c := range list {
		if c.Name == "" || errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		if c, err = ev.World.Author(ev.ctx, c); err != nil {
			ev.warnings.Add("cannot determine the author of " + list[i].Name + ": " + err.Error())
			out.unread = append(out.unread, list[i].Name)
			continue
		}
		c.Author, c.Manager = approve.Bounded(c.Author), approve.Bounded(c.Manager)
		list[i] = c
	}
	return out
}

// cause returns a cause with a name that is not longer than a hop holds.
func cause(kind v1alpha1.CauseKind, name string) v1alpha1.HopCause {
	return v1alpha1.HopCause{Kind: kind, Name: approve.Bounded(name)}
}

// traceWith returns the trace of the object with the hop at its end. The hop comes after those of the
// parent where an intent of the parent explains the change (KR-07-01, KR-07-09).
func (ed *editor) traceWith(hop v1alpha1.Hop) trace.Trace {
	view := ed.view()
	if view == nil || hop.Unrequested && !ed.Options.KeepIntent || ed.verdict.Class == outcome.ClassNewOrigin {
		return trace.Trace{hop}
	}
	return trace.Extend(view.trace, view.state.Ref, hop, ed.Req.Ref().Namespace)
}
