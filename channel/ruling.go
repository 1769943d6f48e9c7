package channel

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Ruling of a pending change: what was decided about it or its parent. The zero value means that nothing was decided, or that it is unknown.
type Ruling struct {
	// Rejected is the rejection that forbids it; nil for none.
	Rejected *v1alpha1.Rejection `json:"rejected,omitempty"`
	// Frozen is the freeze of its parent; nil for none.
	Frozen *identity.Freeze `json:"-"`
	// Snoozed is the snooze of its parent; nil for none.
	Snoozed *v1alpha1.Snooze `json:"snoozed,omitempty"`
	// Approved: there is an approval of it, which may not be enough.
	Approved bool `json:"-"`
}

// State returns the state of a pending change in a word each; empty where nothing was decided about it (KR-12-30).
func State(d *v1alpha1.Drift, s Ruling) string {
	var out []string
	if s.Rejected != nil {
		out = append(out, "rejected")
	}
	if s.Frozen != nil {
		out = append(out, "frozen")
	}
	if s.Snoozed != nil || d.Status.Snoozed {
		out = append(out, "snoozed")
	}
	if n := len(d.Status.Votes); n > 0 {
		out = append(out, Plural(n, "vote"))
	}
	return strings.Join(out, ", ")
}

// RulingLines returns why a pending change is rejected, frozen or snoozed, and what ends that.
func RulingLines(d *v1alpha1.Drift, s Ruling) (out []string) {
	if r := s.Rejected; r != nil {
		out = append(out, fmt.Sprintf("rejected on %s: %s; to withdraw: %s", Describe(d.Spec.Parent), r.Reason, WithdrawCommand(d)))
	}
	if s.Frozen != nil {
		out = append(out, s.Frozen.Why()+"; approvals count once that ends: "+OwnCommands(s.Frozen.End(), nil))
	}
	if z := s.Snoozed; z != nil {
		out = append(out, "snoozed until "+z.Expiry.UTC().Format(time.RFC3339)+Part(" by ", z.User, "")+Part(": ", z.Message, ""))
	}
	return out
}

// rulingKinds are the parts of a ruling with the label of their lines, in the order in which they are listed.
var rulingKinds = []struct {
	label string
	of    func(Ruling) Ruling
}{
	{"Rejected", func(s Ruling) Ruling { return Ruling{Rejected: s.Rejected} }},
	{"Frozen", func(s Ruling) Ruling { return Ruling{Frozen: s.Frozen} }},
	{"Snoozed", func(s Ruling) Ruling { return Ruling{Snoozed: s.Snoozed} }},
}

// decided returns what was decided about the changes of a cause, a line for each decision: what their votes lack, rejections, freezes and snoozes, each with
// some of the ids (KR-12-30).
func (g *Group) decided(ruling func(*v1alpha1.Drift) Ruling) (out []string) {
	lacks := g.Distinct(func(d *v1alpha1.Drift) string { return d.Status.Lacks })
	out = g.labelled("Lacks", func(d *v1alpha1.Drift) string { return d.Status.Lacks })
	if more := len(lacks) - maxLacks; more > 0 {
		out = append(out, fmt.Sprintf("and %d other sets of votes; -o yaml shows all", more))
	}
	if slices.ContainsFunc(g.Drifts, isEdit) {
		out = append(out, "An approval reverts that edit.")
	}
	for n := range rulingKinds {
		out = append(out, g.labelled(rulingKinds[n].label, func(d *v1alpha1.Drift) string {
			return strings.Join(RulingLines(d, rulingKinds[n].of(ruling(d))), "; ")
		})...)
	}
	return out
}

// labelled values of the changes of a cause, the ids of one value together, of at most maxLacks values.
func (g *Group) labelled(label string, of func(*v1alpha1.Drift) string) (out []string) {
	var values []string
	ids := map[string][]string{}
	for _, d := range g.Drifts {
		if v := of(d); v != "" {
			if ids[v] == nil {
				values = append(values, v)
			}
			ids[v] = append(ids[v], d.Name)
		}
	}
	for _, v := range values[:min(len(values), maxLacks)] {
		names := slices.Clone(ids[v][:min(len(ids[v]), maxIDs)])
		if more := len(ids[v]) - maxIDs; more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		out = append(out, label+": "+v+", for "+strings.Join(names, ", "))
	}
	return out
}
