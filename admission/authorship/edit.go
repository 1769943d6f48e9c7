package authorship

import (
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Edits returns the causes of a change, by its paths, which reverts what other users than the parent's controller set: one for each user. They
// are nil where it reverts no edit; all is true where each change is of one. managed are the managedFields of the object, value is its trace
// as an annotation, and controller the field manager of the change, empty for that of Crossplane (KR-07-14).
func Edits(managed []any, value string, changes []change.Change, controller string) (edits []v1alpha1.HopCause, all bool) {
	editors := parent.EditorsOf(managed, func(manager string) bool { return manager == controller || subject.IsComposedApply(manager) })
	if editors.None() {
		return nil, false
	}
	t := trace.Of(map[string]string{v1alpha1.AnnotationKeyTrace: value})
	all = true
	for _, c := range changes {
		e, ok := editors.Edit(keysOf(c.Path))
		if !ok {
			all = false
			continue
		}
		if c := editBy(t, e); !slices.Contains(edits, c) {
			edits = append(edits, c)
		}
	}
	return edits, all && len(edits) > 0
}

// keysOf a path, up to the first item of a list: managedFields name items by what they contain.
func keysOf(path string) (out []string) {
	for _, s := range change.SplitPath(path) {
		if s.Item {
			break
		}
		out = append(out, s.Key)
	}
	return out
}

// decidedWithin is how much later than its entry in managedFields a write may be in its trace, in the seconds that both have: a manager that
// writes the same fields once more in the second of its entry leaves no other. A longer time would name the user of a write without an entry.
const decidedWithin = time.Second

// editBy returns the cause of what reverts an edit: its user is that of the trace, where the object's last change is a
// user's own and not later than the edit.
func editBy(t trace.Trace, e parent.Edit) v1alpha1.HopCause {
	hop := t.Own()
	if len(t) == 1 && hop.User != "" && !hop.Unattributed && !hop.Unrequested && hop.Passed == "" &&
		(!e.At.Before(hop.Timestamp.Time) || e.Last && hop.Timestamp.Sub(e.At) <= decidedWithin) {
		return v1alpha1.HopCause{Kind: v1alpha1.CauseEdit, Name: hop.User}
	}
	return v1alpha1.HopCause{Kind: v1alpha1.CauseEdit, Name: v1alpha1.CauseUnknownEditor, Manager: e.Manager + " (" + e.Operation + ")"}
}
