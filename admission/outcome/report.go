package outcome

import (
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ReportOf returns the report about this request on a parent: spec holds what the caller knows.
func ReportOf(f *facts.Facts, spec v1alpha1.DriftSpec, p *parent.State, set approval.Set) *Report {
	out := &Report{ParentRef: p.Ref, Parent: p, Snoozed: set.Snoozed(f.Req.Time)}
	if f.Options.Unreported {
		return out
	}
	ref := f.Req.Ref()
	spec.Parent = identity.ObjectReference(p.Ref, p.Generation, "")
	spec.Child = identity.ObjectReference(ref, f.Req.Current().GetGeneration(), f.Resource())
	out.Recurs = set.UsedFor(spec.ID)
	spec.Operation, spec.User = string(f.Req.Operation), f.Req.User.Name
	if f.Req.Operation == request.Update { // a creation or deletion is one change
		spec.Difference = change.Fields(f.Changes, identity.MaxReportFields)
	}
	out.Drift = spec
	return out
}

// CauseOf describes the cause of a change by the controller of a parent.
func CauseOf(f *facts.Facts, p *parent.State) string {
	switch {
	case p.CompositionRevision != "":
		return "composition revision " + p.CompositionRevision
	case f.Req.User.Name != "":
		return "controller " + f.Req.User.Name
	}
	return "the controller of " + identity.Describe(p.Ref)
}
