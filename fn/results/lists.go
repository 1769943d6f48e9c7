package results

import (
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Texts returns those of a list; nil for anything else.
func Texts(v *structpb.Value) (out []string) {
	for _, e := range v.GetListValue().GetValues() {
		out = append(out, e.GetStringValue())
	}
	return out
}

// Joined returns two lists as one, each line once; nil for none.
func Joined(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	out := slices.Clone(a)
	for _, l := range b {
		if !slices.Contains(a, l) {
			out = append(out, l)
		}
	}
	return out
}

// ListOf returns texts as a list.
func ListOf(texts []string) *structpb.Value {
	out := make([]*structpb.Value, 0, len(texts))
	for _, t := range texts {
		out = append(out, ssa.StringOf(t))
	}
	return ssa.ListOf(out)
}

// Values returns the values of the first changes, as far as there is room; nil where there are no
// changes.
func Values(changes []change.Change) []v1alpha1.FieldDifference {
	out, room := change.Fields(changes, len(changes)), v1alpha1.MaxHeldValues
	for i := range out {
		if room -= len(out[i].Path) + len(out[i].Old) + len(out[i].New); room < 0 {
			return out[:i:i]
		}
	}
	return out
}

// Edits returns the causes of a change that reverts an edit by another user; nil for any other change. Authors are left out: they may be known
// later, and the same change has the same value. The causes are not modified.
func Edits(of []v1alpha1.HopCause) []v1alpha1.HopCause {
	if !slices.ContainsFunc(of, func(c v1alpha1.HopCause) bool { return c.Kind == v1alpha1.CauseEdit }) {
		return nil
	}
	causes := slices.Clone(of)
	for i, c := range causes {
		if c.Kind != v1alpha1.CauseEdit {
			causes[i] = v1alpha1.HopCause{Kind: c.Kind, Name: c.Name}
		}
	}
	return causes
}
