package fn

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/crossplane/function-sdk-go/errors"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

const (
	// contextKey under which a step tells later Kausality steps of the pipeline
	// what it held: they find it held, with nothing left to decide.
	contextKey = "kausality.fn.crossplane.io/held"

	// maxMessage of the condition and maxLine of one resource in it, in bytes.
	maxMessage = 2048
	maxLine    = 640
	// maxResults that one run adds.
	maxResults = 10
)

// report what was held, and in log mode what would have been.
type report struct {
	// reason of the condition.
	reason string
	// lines by resource, for users.
	lines []string
	// creations that are held, sorted by resource.
	creations []v1alpha1.HeldCreation
}

func (r *run) report() {
	own := report{reason: v1alpha1.ConditionReasonAllowed, creations: r.creations()}
	var warnings []warning
	for _, n := range r.notes {
		warnings = append(warnings, warning{reason: "Kausality", text: n})
	}
	for _, res := range r.resources {
		for _, n := range res.notes {
			warnings = append(warnings, warning{reason: "Kausality", text: res.says(n)})
		}
		for _, w := range res.decision.Warnings {
			warnings = append(warnings, warning{reason: "Kausality", text: res.says(w), drift: res.decision.Report != nil})
		}
		if !res.refused() {
			continue
		}
		reason := v1alpha1.ConditionReasonHeld
		if res.decision.Reason == admission.ReasonFrozen {
			reason, own.reason = v1alpha1.ConditionReasonFrozen, v1alpha1.ConditionReasonFrozen
		} else if own.reason == v1alpha1.ConditionReasonAllowed {
			own.reason = v1alpha1.ConditionReasonHeld
		}
		line := res.line()
		own.lines = append(own.lines, line)
		warnings = append(warnings, warning{reason: reason, text: line, drift: true})
	}
	r.results(warnings)
	all := own.after(r.earlier)
	if all.reason != v1alpha1.ConditionReasonAllowed {
		r.rsp.Context = all.tell(r.req.GetContext())
	}
	r.condition(all, warnings)
}

// line about a held resource: never without the command that approves it.
func (res *resource) line() string {
	d := &res.decision
	out := res.says(d.Message)
	if len(out) <= maxLine {
		return out
	}
	if d.Suggestion == "" {
		return cut(out, maxLine)
	}
	fields := ""
	if len(d.Changes) > 0 && res.operation == admission.Update {
		fields = " of " + change.Summary(d.Changes, 3)
	}
	tail := ". To approve: " + d.Suggestion
	return cut(res.says(string(d.Reason)+fields), max(maxLine-len(tail), 0)) + tail
}

// says a text about the resource.
func (res *resource) says(text string) string {
	return "resource " + strconv.Quote(res.name) + ": " + text
}

func cut(s string, size int) string {
	if len(s) <= size {
		return s
	}
	s = s[:max(size-len("…"), 0)]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// condition of the composite (KR-09-05).
func (r *run) condition(all report, warnings []warning) {
	message := all.message(r.composite.settledIntent().String())
	if all.reason != v1alpha1.ConditionReasonAllowed {
		response.ConditionFalse(r.rsp, v1alpha1.ConditionKausality, all.reason).WithMessage(message).TargetComposite()
		return
	}
	lines := make([]string, 0, len(warnings))
	for _, w := range warnings {
		lines = append(lines, cut(w.text, maxLine))
	}
	message = report{lines: lines}.message(r.composite.settledIntent().String())
	response.ConditionTrue(r.rsp, v1alpha1.ConditionKausality, v1alpha1.ConditionReasonAllowed).WithMessage(message).TargetComposite()
}

// message of at most maxMessage bytes: as many lines as fit, the rest counted,
// and the note.
func (p report) message(note string) string {
	const reserve = len("and 1000000 more\n")
	room := maxMessage - len(note) - 1 - reserve
	var out []string
	for i, line := range p.lines {
		if room -= len(line) + 1; room < 0 {
			out = append(out, fmt.Sprintf("and %d more", len(p.lines)-i))
			break
		}
		out = append(out, line)
	}
	if note != "" {
		out = append(out, note)
	}
	return strings.Join(out, "\n")
}

type warning struct {
	reason, text string
	// drift: a snooze silences it.
	drift bool
}

// results that become events of the composite; none of drift while it is
// snoozed (KR-09-06).
func (r *run) results(warnings []warning) {
	warnings = slices.Compact(slices.Clone(warnings))
	if approval.Parse(r.composite.state.Annotations).Snoozed(r.now) {
		warnings = slices.DeleteFunc(warnings, func(w warning) bool { return w.drift })
	}
	for i, w := range warnings {
		if i == maxResults {
			response.Warning(r.rsp, errors.Errorf("and %d more", len(warnings)-i)).WithReason(w.reason)
			return
		}
		response.Warning(r.rsp, errors.New(cut(w.text, maxMessage))).WithReason(w.reason)
	}
}

// earlier report of a Kausality step of the same pipeline run.
func earlier(context *structpb.Struct) report {
	fields := context.GetFields()[contextKey].GetStructValue().GetFields()
	p := report{reason: v1alpha1.ConditionReasonAllowed}
	switch reason := fields["reason"].GetStringValue(); reason {
	case v1alpha1.ConditionReasonHeld, v1alpha1.ConditionReasonFrozen:
		p.reason = reason
	}
	for _, v := range fields["resources"].GetListValue().GetValues() {
		p.lines = append(p.lines, v.GetStringValue())
	}
	p.creations = parseCreations(fields["creations"].GetStringValue())
	return p
}

// after an earlier report: the two together.
func (p report) after(before report) report {
	if before.reason == v1alpha1.ConditionReasonAllowed {
		return p
	}
	if p.reason != v1alpha1.ConditionReasonFrozen {
		p.reason = before.reason
	}
	lines := slices.Clone(before.lines)
	for _, l := range p.lines {
		if !slices.Contains(before.lines, l) {
			lines = append(lines, l)
		}
	}
	p.lines = lines
	return p
}

// tell later steps.
func (p report) tell(context *structpb.Struct) *structpb.Struct {
	list := &structpb.ListValue{Values: make([]*structpb.Value, 0, len(p.lines))}
	for _, l := range p.lines {
		list.Values = append(list.Values, ssa.StringOf(l))
	}
	fields := maps.Clone(context.GetFields())
	if fields == nil {
		fields = map[string]*structpb.Value{}
	}
	told := map[string]*structpb.Value{"reason": ssa.StringOf(p.reason), "resources": structpb.NewListValue(list)}
	if len(p.creations) > 0 {
		told["creations"] = ssa.StringOf(creationsString(p.creations))
	}
	fields[contextKey] = ssa.StructOf(told)
	return &structpb.Struct{Fields: fields}
}
