package fn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/results"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

const (
	// contextKey under which a step reports to later Kausality steps of the pipeline
	// what it held: in the desired state they find nothing left to decide.
	contextKey = "kausality.fn.crossplane.io/held"

	// maxLine is the size of the text about one resource, in bytes.
	maxLine = 640
)

// report is what the steps of a pipeline hold.
type report struct {
	// reason of the condition.
	reason string
	// lines by resource, for users.
	lines []string
	// outside are the lines about external drift: nothing is held by it.
	outside []string
	// creations that are held, sorted by resource.
	creations []v1alpha1.HeldCreation
}

// warning for users.
type warning struct {
	results.Warning
	// drift: a snooze silences it.
	drift bool
}

// report reports what is held, and in mode log what would be, in the condition of the composite, in
// results and to later steps (KR-09-05, KR-09-06).
func (r *run) report() {
	own := report{reason: v1alpha1.ConditionReasonAllowed, creations: r.creations()}
	warnings := make([]warning, 0, len(r.notes)+len(r.resources))
	for _, n := range r.notes {
		warnings = warn(warnings, results.Reason, n, false)
	}
	for _, res := range r.resources {
		warnings = own.about(res, warnings)
	}
	r.results(warnings)
	all := own.after(r.earlier)
	r.rsp.Context = all.toContext(r.req)
	r.condition(all, warnings)
	r.settled()
}

// warn adds a warning.
func warn(to []warning, reason, text string, drift bool) []warning {
	return append(to, warning{results.Warning{Reason: reason, Text: text}, drift})
}

// about adds one resource to the report: what is held of it. It returns the warnings with those of the
// resource.
func (p *report) about(res *resource, to []warning) []warning {
	for _, n := range res.notes {
		to = warn(to, results.Reason, res.prefixed(n), false)
	}
	for _, w := range res.decision.Warnings {
		to = warn(to, results.Reason, res.prefixed(w), res.decision.Report != nil)
	}
	if line := res.outsideLine(); line != "" {
		p.outside = append(p.outside, line)
		to = warn(to, string(input.FindingExternalDrift), line, true)
	}
	d := res.holding()
	if d == nil {
		return to
	}
	reason := v1alpha1.ConditionReasonHeld
	if d.Reason == outcome.ReasonFrozen {
		reason = v1alpha1.ConditionReasonFrozen
	}
	if p.reason != v1alpha1.ConditionReasonFrozen {
		p.reason = reason
	}
	line := res.line(d)
	p.lines = append(p.lines, line)
	return warn(to, reason, line, true)
}

// line returns the line about what is held of a resource: never without the command that approves it.
func (res *resource) line(d *admission.Decision) string {
	out := res.prefixed(d.Message)
	if len(out) <= maxLine || d.Suggestion == "" {
		return results.Cut(out, maxLine)
	}
	fields := ""
	if len(d.Changes) > 0 && res.operation == admission.Update {
		fields = " of " + change.Summary(d.Changes, 3)
	}
	tail := ". To approve: " + d.Suggestion
	return results.Cut(res.prefixed(string(d.Reason)+fields+lacking(d.Lacks)), max(maxLine-len(tail), 0)) + tail
}

// outsideLine returns the line about external drift (KR-09-26); "" where there is no drift. It is
// never without the command that approves reverting it.
func (res *resource) outsideLine() string {
	d := res.outside
	if d == nil {
		return ""
	}
	tail := lacking(results.Cut(res.outsideLacks, maxLine/4)) + ". To approve reverting it: " + d.SuggestedApproval
	what := res.prefixed(string(input.FindingExternalDrift) + ": " + gating.ExplainDifference(d.Difference))
	return results.Cut(what, max(maxLine-len(tail), 0)) + tail
}

// lacking ends a clause with what the votes lack (KR-14-12); "" for nothing.
func lacking(votes string) string {
	if votes == "" {
		return ""
	}
	return "; " + votes
}

// prefixed returns a text with the name of the resource.
func (res *resource) prefixed(text string) string {
	return "resource " + strconv.Quote(res.name) + ": " + text
}

// settled remembers the last intent that settled, where no webhook does: composed resources carry it as well, and may all be gone.
func (r *run) settled() {
	if note := r.composite.SettledIntent(); note != (offline.Note{}) {
		response.ConditionTrue(r.rsp, v1alpha1.ConditionSettled, note.Reason()).WithMessage(note.String()).TargetComposite()
	}
}

// condition sets the condition of the composite (KR-09-05): the lines about what is held, or all
// warnings where nothing is.
func (r *run) condition(all report, warnings []warning) {
	if all.reason != v1alpha1.ConditionReasonAllowed {
		lines := slices.Concat(all.lines, all.outside)
		response.ConditionFalse(r.rsp, v1alpha1.ConditionKausality, all.reason).WithMessage(message(lines)).TargetComposite()
		return
	}
	lines := make([]string, 0, len(warnings))
	for _, w := range warnings {
		lines = append(lines, results.Cut(w.Text, maxLine))
	}
	lines = results.Joined(all.outside, lines) // those of an earlier step as well
	response.ConditionTrue(r.rsp, v1alpha1.ConditionKausality, v1alpha1.ConditionReasonAllowed).WithMessage(message(lines)).TargetComposite()
}

// message returns a message of at most results.MaxMessage bytes: as many lines as fit, and the number of
// the others.
func message(lines []string) string {
	const reserve = len("and 1000000 more\n")
	room := results.MaxMessage - reserve
	var out []string
	for i, line := range lines {
		if room -= len(line) + 1; room < 0 {
			out = append(out, fmt.Sprintf("and %d more", len(lines)-i))
			break
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// results adds the warnings as results, which become events of the composite; there is no event of drift
// while it is snoozed (KR-09-06).
func (r *run) results(warnings []warning) {
	snoozed := approval.Parse(r.composite.State.Annotations).Snoozed(r.now)
	list := make([]results.Warning, 0, len(warnings))
	for _, w := range slices.Compact(slices.Clone(warnings)) {
		if !w.drift || !snoozed {
			list = append(list, w.Warning)
		}
	}
	rest := ""
	if len(list) > results.Max {
		rest = list[results.Max].Reason
	}
	results.Warn(r.rsp, list, len(list), rest)
}

// earlier returns the report of an earlier Kausality step of the same pipeline run, from the context;
// where there is no such step, it reports that nothing is held.
func earlier(req *fnv1.RunFunctionRequest) report {
	fields := before(req).GetFields()
	p := report{reason: v1alpha1.ConditionReasonAllowed, creations: offline.ParseCreations(fields["creations"].GetStringValue())}
	switch reason := fields["reason"].GetStringValue(); reason {
	case v1alpha1.ConditionReasonHeld, v1alpha1.ConditionReasonFrozen:
		p.reason = reason
	}
	p.lines, p.outside = results.Texts(fields["resources"]), results.Texts(fields["outside"])
	return p
}

// before returns what an earlier step has in the context; nil for none. Crossplane runs a step again, with the context that it returned,
// until its requirements are met. What it reported then, when it did not know the policies yet, is no report of another step:
// all runs of a step have one tag (KR-09-28).
func before(req *fnv1.RunFunctionRequest) *structpb.Struct {
	fields := req.GetContext().GetFields()[contextKey].GetStructValue()
	if tag := req.GetMeta().GetTag(); tag != "" && fields.GetFields()["tag"].GetStringValue() == tag {
		return fields.GetFields()["before"].GetStructValue()
	}
	return fields
}

// after returns this report together with an earlier one, each line once.
func (p report) after(before report) report {
	p.outside = results.Joined(before.outside, p.outside)
	if before.reason == v1alpha1.ConditionReasonAllowed {
		return p
	}
	if p.reason != v1alpha1.ConditionReasonFrozen {
		p.reason = before.reason
	}
	p.lines = results.Joined(before.lines, p.lines)
	return p
}

// toContext returns the context with the report, for later steps. Where there is nothing to report, it is as an earlier step left it.
func (p report) toContext(req *fnv1.RunFunctionRequest) *structpb.Struct {
	context, earlier := req.GetContext(), before(req)
	var value *structpb.Value
	if earlier != nil {
		value = structpb.NewStructValue(earlier)
	}
	if p.reason != v1alpha1.ConditionReasonAllowed || len(p.outside) > 0 {
		fields := map[string]*structpb.Value{"reason": ssa.StringOf(p.reason), "resources": results.ListOf(p.lines), "tag": ssa.StringOf(req.GetMeta().GetTag())}
		if value != nil && req.GetMeta().GetTag() != "" { // else it is never read
			fields["before"] = value
		}
		if len(p.outside) > 0 {
			fields["outside"] = results.ListOf(p.outside)
		}
		if len(p.creations) > 0 {
			fields["creations"] = ssa.StringOf(offline.FormatCreations(p.creations))
		}
		value = ssa.StructOf(fields)
	}
	if value == nil && context.GetFields()[contextKey] == nil {
		return context
	}
	return &structpb.Struct{Fields: ssa.With(context.GetFields(), value, contextKey)}
}
