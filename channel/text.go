package channel

import (
	"fmt"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// operations of Drifts as verbs.
var operations = map[string]string{
	string(admission.Create): "create", string(admission.Update): "change", string(admission.Delete): "delete",
}

// OperationVerb returns what an operation does, as a verb; empty for none.
func OperationVerb(operation string) string { return operations[operation] }

// maxSummaryFields that a summary lists.
const maxSummaryFields = 3

// Summary returns the summary of a Drift in one line: operation, object, fields.
func Summary(d *v1alpha1.Drift) string {
	out := Effect(d)
	if len(d.Spec.Difference) == 0 || IsExternal(d) && d.Spec.Operation == string(admission.Delete) {
		return out
	}
	parts := make([]string, 0, maxSummaryFields+1)
	for i, f := range d.Spec.Difference {
		if i == maxSummaryFields {
			parts = append(parts, fmt.Sprintf("%d more", len(d.Spec.Difference)-maxSummaryFields))
			break
		}
		parts = append(parts, Field(f))
	}
	return out + ": " + strings.Join(parts, "; ")
}

// Effect returns the effect of a change without its fields: operation and object.
func Effect(d *v1alpha1.Drift) string {
	object := Describe(d.Spec.Child)
	switch {
	case IsExternal(d) && d.Spec.Operation == string(admission.Delete):
		return "delete " + object + " and its external resource"
	case IsExternal(d):
		return "change the external resource of " + object
	}
	return operations[d.Spec.Operation] + " " + object
}

// Field returns the field of a difference in one line. What the composition function holds has no
// values.
func Field(f v1alpha1.FieldDifference) string {
	switch {
	case f.Old == "" && f.New == "":
		return f.Path
	case f.Old == "":
		return fmt.Sprintf("%s: set to %s", f.Path, f.New)
	case f.New == "":
		return fmt.Sprintf("%s: %s removed", f.Path, f.Old)
	}
	return fmt.Sprintf("%s: %s → %s", f.Path, f.Old, f.New)
}

// Describe describes an object: kind, namespace and name.
func Describe(o v1alpha1.ObjectReference) string { return identity.Describe(identity.Ref(o)) }

// Plural returns a count with its noun, as in "1 object" and "2 objects".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// maxCell is how many characters of a change a line shows.
const maxCell = 160

// Clip clips a text to what a line shows of a change.
func Clip(s string) string {
	n := 0
	for i := range s {
		if n++; n > maxCell {
			return s[:i] + "…"
		}
	}
	return s
}

// Printable returns a text without characters that are not shown or change how others are: control characters become spaces but for line feeds, and
// marks of direction and zero-width characters are left out. Invalid UTF-8 becomes U+FFFD.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case unicode.Is(unicode.Cf, r), r == '\u115f', r == '\u1160', r == '\u3164':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// ApproveCommand returns the command that approves Drifts in one namespace; an empty one is for
// cluster-scoped parents.
func ApproveCommand(namespace string, ids ...string) string {
	return "kubectl kausality approve" + InNamespace(namespace) + " " + strings.Join(ids, " ")
}

// WithdrawCommand returns the command that withdraws the rejection of a pending change.
func WithdrawCommand(d *v1alpha1.Drift) string {
	return "kubectl kausality reject" + InNamespace(d.Namespace) + " " + d.Name + " --withdraw"
}

// ExplainCommand returns the command that shows a pending change: why it is held, and what may be done.
func ExplainCommand(d *v1alpha1.Drift) string {
	return "kubectl kausality pending" + InNamespace(d.Namespace) + " --cause " + CauseKey(d) + " --limit 0"
}

// Part returns the part of a sentence: a text with what is before and after it; empty where the text is.
func Part(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}

// InNamespace returns the flag for a namespace, with a space before it; empty for none.
func InNamespace(namespace string) string { return Part(" -n ", namespace, "") }

// Since returns the time since when a drift exists; the creation of the Drift where the status is empty.
func Since(d *v1alpha1.Drift) metav1.Time {
	if d.Status.Since != nil {
		return *d.Status.Since
	}
	return d.CreationTimestamp
}

// Open reports whether a drift is not resolved.
func Open(d *v1alpha1.Drift) bool { return d.Status.Phase != v1alpha1.DriftResolved }

// capitalized makes the first letter of a sentence a capital.
func capitalized(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
