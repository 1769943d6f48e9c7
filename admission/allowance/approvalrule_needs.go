package allowance

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kausality-io/function-kausality/admission/window"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Need holds the requirements of one ApprovalRule for the approvals of a change, and the votes that they lack.
type Need struct {
	// Rule is the name of the ApprovalRule.
	Rule string `json:"rule"`
	// Lacks as a clause; empty where the rule is met.
	Lacks string `json:"lacks,omitempty"`
	// Broken: the rule does not compile, and no approval meets it. Nothing of the following is given then.
	Broken bool `json:"broken,omitempty"`
	// Votes that it requires; all of them must be met.
	Votes []NeededVotes `json:"votes,omitempty"`
	// ExpiresAfter is how long a vote counts; 0 for ever.
	ExpiresAfter time.Duration `json:"expiresAfter,omitempty"`
	// BreakGlass are the subjects each of which may approve alone, with a reason, at any time.
	BreakGlass []v1alpha1.Subject `json:"breakGlass,omitempty"`

	windows *window.Windows
}

// NeededVotes are votes that an ApprovalRule requires.
type NeededVotes struct {
	// Count of the votes of different users.
	Count int `json:"count"`
	// Subjects whose votes count; empty for those of every user.
	Subjects []v1alpha1.Subject `json:"subjects,omitempty"`
	// Not are the authors of the change, whose votes do not count; nil where they do.
	Not []string `json:"not,omitempty"`
	// Persons: votes of machines do not count.
	Persons bool `json:"persons,omitempty"`
}

// Needs returns the needs of all rules, with the result of Lacks for each (KR-14-18). Its arguments are those of
// Lacks.
func (r Rules) Needs(votes []v1alpha1.Vote, authors Authors, now time.Time) []Need {
	out := make([]Need, 0, len(r))
	for _, rule := range r {
		n := Need{Rule: rule.Name, Broken: rule.broken}
		n.Lacks, _ = rule.missing(votes, authors, now)
		if rule.broken {
			out = append(out, n)
			continue
		}
		n.ExpiresAfter, n.BreakGlass, n.windows = rule.expiresAfter, rule.alone, rule.windows
		for _, q := range rule.require {
			v := NeededVotes{Count: q.count, Subjects: q.subjects, Persons: q.persons}
			if q.notAuthors {
				v.Not, _ = known(authors.Names)
			}
			n.Votes = append(n.Votes, v)
		}
		out = append(out, n)
	}
	return out
}

// Who returns a clause about the users who may approve the change, and when (KR-14-18). Windows are evaluated at the
// given time.
func (n *Need) Who(at time.Time) string {
	if n.Broken {
		return "no approval: it does not compile"
	}
	votes := make([]string, 0, len(n.Votes))
	for _, v := range n.Votes {
		votes = append(votes, v.who())
	}
	out := []string{strings.Join(votes, ", and ")}
	if n.ExpiresAfter > 0 {
		out = append(out, fmt.Sprintf("each counts for %s", duration.HumanDuration(n.ExpiresAfter)))
	}
	if when := n.windows.When(at); when != "" {
		out = append(out, when)
	}
	if len(n.BreakGlass) > 0 {
		out = append(out, fmt.Sprintf("or %s alone at any time, with break-glass and a reason", subjectsText(n.BreakGlass)))
	}
	return strings.Join(out, "; ")
}

// who returns a clause about the users who may cast the votes, as in "2 of group dba, not hans".
func (v *NeededVotes) who() string {
	out := fmt.Sprintf("%d of ", v.Count)
	switch {
	case len(v.Subjects) > 0:
		out += subjectsText(v.Subjects)
	case v.Persons:
		out += "any users, no machines"
	default:
		out += "any users"
	}
	if len(v.Not) > 0 {
		out += ", not " + strings.Join(v.Not, " or ")
	}
	if !v.Persons {
		out += ", machines too"
	}
	return out
}
