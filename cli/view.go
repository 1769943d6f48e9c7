package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// view turns what was found into text. The zero value has no colours and shows
// no ages: now is nil.
type view struct {
	paint
	now func() time.Time
}

// hop returns the hop in one line: object, generation, user, time. carrier is the namespace of
// the object that has the trace.
func (v view) hop(h v1alpha1.Hop, carrier string, wide bool) string {
	out := v.bold(hopName(h))
	if h.ClusterScoped && carrier != "" {
		out += " (cluster-scoped)"
	}
	if h.Generation > 0 {
		out += fmt.Sprintf(", generation %d", h.Generation)
	}
	return out + ", by " + v.who(h) + v.when(h.Timestamp, wide)
}

// hopLines returns what else is known of a hop.
func (v view) hopLines(h v1alpha1.Hop) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(h.Labels)) {
		out = append(out, k+": "+h.Labels[k])
	}
	out = append(out, v.unrequested(h)...)
	if a := h.Approval; a != nil {
		line := "approved (" + string(a.Mode) + ")" + channel.Part(": difference ", a.Digest, "") + approval.VotesText(a.By)
		if a.Reason != "" && !slices.ContainsFunc(a.By, func(v v1alpha1.Vote) bool { return v.Reason != "" }) {
			line += ", because: " + a.Reason
		}
		out = append(out, line)
	}
	return out
}

// passedAs is how an unrequested change passed, as a phrase.
var passedAs = map[v1alpha1.Passed]string{
	v1alpha1.PassedLog: "in mode log", v1alpha1.PassedApproval: "by an approval", v1alpha1.PassedPolicy: "by an ApprovalPolicy",
	v1alpha1.PassedUpgrade: "by an UpgradeAllowance", v1alpha1.PassedBreakGlass: "by break glass",
}

// unrequested returns why a hop is unrequested, and a line for each cause; nil for any other hop
// (KR-07-09, KR-07-10).
func (v view) unrequested(h v1alpha1.Hop) []string {
	var out []string
	if h.Passed != "" {
		what := "not covered by an allowance"
		if h.Unrequested {
			what = "unrequested"
		}
		out = append(out, v.yellow(what+", passed "+cmp.Or(passedAs[h.Passed], string(h.Passed))))
	}
	return append(out, channel.CauseLines(h.Causes)...)
}

// who made the change of a hop.
func (v view) who(h v1alpha1.Hop) string {
	if h.User == "" {
		return v.yellow(channel.UserOf(h))
	}
	return v.green(h.User)
}

// when as an age, or as a time in wide output; empty for no time.
func (v view) when(t metav1.Time, wide bool) string {
	switch {
	case t.IsZero():
		return ""
	case wide:
		return ", at " + t.UTC().Format(time.RFC3339)
	}
	return ", " + v.age(t) + " ago"
}

// age returns the age of a time, as kubectl prints it; "?" for no time.
func (v view) age(t metav1.Time) string {
	if t.IsZero() {
		return "?"
	}
	return duration.HumanDuration(v.now().Sub(t.Time))
}

// verdict returns the verdict with its reason.
func (v view) verdict(allowed bool, reason outcome.Reason) string {
	verdict := v.green("allowed")
	switch {
	case !allowed:
		verdict = v.red("refused")
	case reason == outcome.ReasonDriftLogged:
		verdict = v.yellow("allowed, with a warning")
	}
	return fmt.Sprintf("%s (%s)", verdict, reason)
}

// hopName names the object of a hop. Crossplane generates some names after the
// hop is written.
func hopName(h v1alpha1.Hop) string {
	return channel.Describe(v1alpha1.ObjectReference{Kind: h.Kind, Namespace: h.Namespace, Name: cmp.Or(h.Name, "(name generated)")})
}

// roles in Crossplane and kro as nouns; objects without one are not in it.
var roles = map[parent.Role]string{
	parent.RoleComposite: "composite resource", parent.RoleManaged: "managed resource", parent.RoleClaim: "claim",
	parent.RoleInstance: "instance of a graph",
}

// attribution returns the end of a line with user, time and message; each may be empty.
func attribution(user, message string, at *metav1.Time) string {
	out := channel.Part(" by ", user, "")
	if !at.IsZero() {
		out += " at " + at.UTC().Format(time.RFC3339)
	}
	return out + channel.Part(": ", message, "")
}

// matched returns the name of the objects that an approval or a rejection is about.
func matched(kind, name, resource string) string {
	switch {
	case resource != "":
		return kind + " " + resource + " of the Composition"
	case name == "*":
		return "every " + kind
	}
	return kind + " " + name
}

// listOf returns the list of values in a sentence.
func listOf(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}

// listVerbs lists verbs in a sentence.
func listVerbs(values []v1alpha1.Verb) string {
	return listOf(lists.Map(values, func(v v1alpha1.Verb) string { return string(v) }))
}
