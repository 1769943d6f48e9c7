package allowance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Lacks is what votes lack for a change whose authors are given, as a clause; "" where every rule
// that matches it is met (KR-14-03).
func (r Rules) Lacks(votes []v1alpha1.Vote, authors []string, now time.Time) string {
	var out []string
	for _, rule := range r {
		if rule.broken {
			out = append(out, "ApprovalRule "+rule.Name+" does not compile, see its status")
			continue
		}
		if missing := rule.lacks(votes, authors, now); missing != "" {
			out = append(out, missing+" (ApprovalRule "+rule.Name+")")
		}
	}
	return strings.Join(out, "; ")
}

// lacks is Lacks of one rule: votes that have expired do not count (KR-14-08).
func (r *Rule) lacks(votes []v1alpha1.Vote, authors []string, now time.Time) string {
	votes = slices.DeleteFunc(slices.Clone(votes), func(v v1alpha1.Vote) bool {
		return r.expiresAfter > 0 && !now.Before(v.At.Add(r.expiresAfter))
	})
	if slices.ContainsFunc(votes, func(v v1alpha1.Vote) bool { return v.BreakGlass != "" && among(v, r.alone) }) {
		return ""
	}
	var out []string
	for _, q := range r.require {
		if missing := q.lacks(votes, authors); missing != "" {
			out = append(out, missing)
		}
	}
	return strings.Join(out, ", and ")
}

func (q *requirement) lacks(votes []v1alpha1.Vote, authors []string) string {
	var counted []string
	for _, v := range votes {
		if (len(q.subjects) == 0 || among(v, q.subjects)) && !(q.persons && !isPerson(v)) && !(q.notAuthors && slices.Contains(authors, v.User)) {
			counted = append(counted, v.User)
		}
	}
	if len(counted) >= q.count {
		return ""
	}
	out := fmt.Sprintf("%d of %d approvals", len(counted), q.count)
	if len(counted) > 0 {
		out += " (" + strings.Join(counted, ", ") + ")"
	}
	out += fmt.Sprintf("; needs %d more", q.count-len(counted))
	if len(q.subjects) > 0 {
		out += " of " + subjectsText(q.subjects)
	}
	if q.notAuthors && len(authors) > 0 {
		out += ", not " + strings.Join(authors, " or ")
	}
	return out
}

// isPerson reports whether a vote is that of a person: neither a machine's nor one that
// a machine casts for another user.
func isPerson(v v1alpha1.Vote) bool {
	return v.OnBehalfOf == "" && !v.Machine
}

// among reports whether a vote is by one of the subjects.
func among(v v1alpha1.Vote, subjects []v1alpha1.Subject) bool {
	return slices.ContainsFunc(subjects, func(s v1alpha1.Subject) bool { return is(s, v.User, v.Groups) })
}

// maxSubjects is how many subjects a message names.
const maxSubjects = 4

// subjectsText as in "group dba or user anna".
func subjectsText(subjects []v1alpha1.Subject) string {
	var out []string
	for _, s := range subjects[:min(len(subjects), maxSubjects)] {
		name := s.Name
		if s.Kind == v1alpha1.SubjectServiceAccount {
			name = s.Namespace + "/" + s.Name
		}
		out = append(out, strings.ToLower(s.Kind[:1])+s.Kind[1:]+" "+name)
	}
	if more := len(subjects) - maxSubjects; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, " or ")
}
