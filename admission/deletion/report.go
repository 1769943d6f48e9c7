package deletion

import (
	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// deletionReport returns the report of a deletion that would orphan or destroy an external resource.
func deletionReport(ev *decider, j judgement) *outcome.Report {
	cause := "deletion"
	if u := ev.Req.User.Name; u != "" {
		cause += " by " + u
	}
	report := destructionReport(ev.Facts, j, cause)
	if report.Repeat = carriesOut(ev.Facts, j.holder) || byInstance(ev); !ev.Req.User.IsMachine() {
		report.Requester = ev.Req.User.Name
	}
	return report
}

// byInstance reports whether the DELETE comes from the controller of an instance of a graph that is being deleted, and contains the object.
// kro tries that again later each time, and gives up in the end (v0.9.3, pkg/dynamiccontroller). A dropped node it tries every 3 seconds.
func byInstance(ev *decider) bool {
	if !ev.Member {
		return false
	}
	p, err := readParent(ev)
	return err == nil && p.Deleting() && actor.IsRecorded(ev.Facts, p.Ref, subject.ControllersOf(p.Annotations))
}

// destructionReport returns the report of a deletion with a cause, on the holder of the approvals.
func destructionReport(f *facts.Facts, j judgement, cause string) *outcome.Report {
	intent, _ := trace.Intent(j.holder)
	return outcome.ReportOf(f, v1alpha1.DriftSpec{
		ID: j.digest.ID(), Digest: j.digest.Whole(), Relation: v1alpha1.RelationExternal, Intent: intent.Generation, Cause: cause,
		SuggestedApproval: identity.ApproveCommand(j.holder, f.KindOf(j.holder), j.digest.ID()),
	}, j.holder, j.set)
}

// carriesOut reports whether the DELETE comes from a user that carries out the
// decisions of others: the garbage collector, the namespace controller, Crossplane.
func carriesOut(f *facts.Facts, holder *parent.State) bool {
	if holder.Role != parent.RoleComposite && holder.Role != parent.RoleClaim {
		return f.Req.User.IsGarbageCollection()
	}
	known := subject.ControllersOf(holder.Annotations)
	return f.Req.User.IsGarbageCollection() ||
		f.World.MayControl(f.Req.User, holder.Role) && (actor.IsRecorded(f, holder.Ref, known) || known.HasHash(f.Hash()))
}
