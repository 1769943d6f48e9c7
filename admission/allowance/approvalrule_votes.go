package allowance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/window"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Authors of a change, whose votes do not count under notAuthors.
type Authors struct {
	// Names of the authors; "" for one who is not recorded.
	Names []string
	// Unread are the causes whose authors could not be read.
	Unread []string
}

// Add a user, once.
func (a *Authors) Add(user string) {
	if !slices.Contains(a.Names, user) {
		a.Names = append(a.Names, user)
	}
}

// Lacks returns a clause about the votes that are missing for a change of the given authors to pass; "" where every
// rule that matches the change is met (KR-14-03). waits is true where nothing is missing but a window that is open
// (KR-14-13).
func (r Rules) Lacks(votes []v1alpha1.Vote, authors Authors, now time.Time) (lacking string, waits bool) {
	var out []string
	waits = true
	for _, rule := range r {
		missing, closed := rule.missing(votes, authors, now)
		waits = waits && (missing == "" || closed)
		switch {
		case rule.broken:
			out = append(out, "ApprovalRule "+rule.Name+" "+missing)
		case missing != "":
			out = append(out, missing+" (ApprovalRule "+rule.Name+")")
		}
	}
	return strings.Join(out, "; "), waits && len(out) > 0
}

// missing returns a clause about the votes that are missing for the rule to be met; "" where it is met. closed is
// true where nothing is missing but a window that is open.
func (r *Rule) missing(votes []v1alpha1.Vote, authors Authors, now time.Time) (missing string, closed bool) {
	switch {
	case r.broken:
		return "does not compile, see its status", false
	case r.glassBroken(votes, now):
		return "", false
	}
	out := r.lacks(votes, authors, now)
	closed = len(out) == 0
	if why := r.windows.Why(now); why != "" {
		out = append(out, why)
	}
	return strings.Join(out, "; "), closed
}

// Closed returns a clause about the reason why changes that need no votes may not pass: the windows that are closed,
// except those of rules that a single vote passes alone. It is "" where no such window is closed (KR-14-21).
func (r Rules) Closed(votes []v1alpha1.Vote, now time.Time) string {
	var out []string
	for _, rule := range r {
		switch why := rule.windows.Why(now); {
		case rule.broken:
			out = append(out, "ApprovalRule "+rule.Name+" does not compile, see its status")
		case why != "" && !rule.glassBroken(votes, now):
			out = append(out, why+" (ApprovalRule "+rule.Name+")")
		}
	}
	return strings.Join(out, "; ")
}

// Alone returns a clause about the subjects of all rules that may approve alone; "" where there is a rule without
// such subjects.
func (r Rules) Alone() string {
	var out []string
	for _, rule := range r {
		if len(rule.alone) == 0 || rule.broken {
			return ""
		}
		if who := subjectsText(rule.alone); !slices.Contains(out, who) {
			out = append(out, who)
		}
	}
	return strings.Join(out, ", and ")
}

// Windows returns whether the windows of all rules are open, and when that may change, as in window.State. Rules that
// a single vote passes alone are left out. windowed is true where any of the rules has windows. A rule that does not
// compile has none.
func (r Rules) Windows(votes []v1alpha1.Vote, now time.Time) (s window.State, windowed bool) {
	s.Open = true
	for _, rule := range r {
		if rule.windows == nil || rule.glassBroken(votes, now) {
			continue
		}
		windowed = true
		one := rule.windows.At(now)
		s.Open = s.Open && one.Open
		if !one.Until.IsZero() && (s.Until.IsZero() || one.Until.Before(s.Until)) {
			s.Until = one.Until
		}
	}
	return s, windowed
}

// glassBroken reports whether one of the votes is enough alone, at any time (KR-14-09).
func (r *Rule) glassBroken(votes []v1alpha1.Vote, now time.Time) bool {
	return slices.ContainsFunc(votes, func(v v1alpha1.Vote) bool { return v.BreakGlass != "" && !r.expired(v, now) && among(v, r.alone) })
}

// Counted returns the votes by which the rules are met (KR-14-10): of a rule that a vote meets alone those that do, else those that one of
// its requirements counts. A vote that meets no rule alone is an ordinary one, without the reason for which it should.
func (r Rules) Counted(votes []v1alpha1.Vote, authors Authors, now time.Time) []v1alpha1.Vote {
	var out []v1alpha1.Vote
	for _, v := range votes {
		counts := len(r.BrokeGlass([]v1alpha1.Vote{v}, now)) > 0
		if !counts {
			v.BreakGlass = ""
		}
		for _, rule := range r {
			counts = counts || !rule.glassBroken(votes, now) && rule.discounted(v, authors, now) == ""
		}
		if counts {
			out = append(out, v)
		}
	}
	return out
}

// BrokeGlass returns the votes of users who may approve alone by one of the rules (KR-14-22).
func (r Rules) BrokeGlass(votes []v1alpha1.Vote, now time.Time) []v1alpha1.Vote {
	return slices.DeleteFunc(slices.Clone(votes), func(v v1alpha1.Vote) bool {
		return !slices.ContainsFunc(r, func(rule *Rule) bool { return rule.glassBroken([]v1alpha1.Vote{v}, now) })
	})
}

// Discounted returns a clause about the reason why a vote counts by none of the rules; "" where it counts by one of them, and where there
// are none.
func (r Rules) Discounted(v v1alpha1.Vote, authors Authors, now time.Time) string {
	var out []string
	if len(r.BrokeGlass([]v1alpha1.Vote{v}, now)) > 0 {
		return ""
	}
	for _, rule := range r {
		why := rule.discounted(v, authors, now)
		if why == "" {
			return ""
		}
		out = append(out, why+" (ApprovalRule "+rule.Name+")")
	}
	return strings.Join(out, "; ")
}

// discounted returns a clause about the reason why no requirement of the rule counts a vote; "" where one does.
func (r *Rule) discounted(v v1alpha1.Vote, authors Authors, now time.Time) string {
	switch {
	case r.broken:
		return "the rule does not compile, see its status"
	case r.expired(v, now):
		return "it has expired"
	}
	var out []string
	for _, q := range r.require {
		why := q.discounted(v, authors)
		if why == "" {
			return ""
		}
		if !slices.Contains(out, why) {
			out = append(out, why)
		}
	}
	return strings.Join(out, ", and ")
}

// expired reports whether a vote has expired, so that it does not count (KR-14-08).
func (r *Rule) expired(v v1alpha1.Vote, now time.Time) bool {
	return r.expiresAfter > 0 && !now.Before(v.At.Add(r.expiresAfter))
}

// lacks returns the clauses about the votes that one rule still lacks.
func (r *Rule) lacks(votes []v1alpha1.Vote, authors Authors, now time.Time) []string {
	votes = slices.DeleteFunc(slices.Clone(votes), func(v v1alpha1.Vote) bool { return r.expired(v, now) })
	var out []string
	for _, q := range r.require {
		if missing := q.lacks(votes, authors); missing != "" {
			out = append(out, missing)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []string{strings.Join(out, ", and ")}
}

func (q *requirement) lacks(votes []v1alpha1.Vote, authors Authors) string {
	if why := q.refused(authors); why != "" {
		return why
	}
	var counted []string
	for _, v := range votes {
		if q.discounted(v, authors) == "" {
			counted = append(counted, v.User)
		}
	}
	names, unknown := known(authors.Names)
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
	if q.notAuthors && len(names) > 0 {
		out += ", not " + some(names, " or ")
	}
	if q.notAuthors && len(unknown) > 0 {
		out += " (" + strings.Join(unknown, ", ") + ")"
	}
	return out
}

// refused returns a clause about the reason why no vote counts for a change by these authors; "" where votes do.
func (q *requirement) refused(authors Authors) string {
	if q.notAuthors && len(authors.Unread) > 0 {
		return "votes do not count as long as authors of the change cannot be read: those of " + some(authors.Unread, ", ")
	}
	if _, unknown := known(authors.Names); q.refuses && len(unknown) > 0 {
		return "votes do not count, since an author of the change is not known by name: " + strings.Join(unknown, ", ")
	}
	return ""
}

// discounted returns a clause about the reason why a vote does not count for a change by these authors; "" where it does.
func (q *requirement) discounted(v v1alpha1.Vote, authors Authors) string {
	switch {
	case len(q.subjects) > 0 && !among(v, q.subjects):
		return v.User + " is not of " + subjectsText(q.subjects)
	case q.persons && v.OnBehalfOf != "":
		return v.User + " acts on behalf of " + v.OnBehalfOf + ", and only users who are persons vote"
	case q.persons && v.Machine:
		return v.User + " is a machine, and only users who are persons vote"
	case q.notAuthors && (v.Author || slices.Contains(authors.Names, v.User)):
		return v.User + " is an author of the change, and authors do not vote"
	}
	return q.refused(authors)
}

// known returns the authors that are known by name, and a clause about each of the others.
func known(authors []string) (names, unknown []string) {
	for _, a := range authors {
		switch {
		case a == "":
			unknown = append(unknown, "one author is unknown")
		case strings.HasPrefix(a, "system:"):
			unknown = append(unknown, "the user behind "+a+" is unknown")
		default:
			names = append(names, a)
		}
	}
	return names, unknown
}

// among reports whether a vote is by one of the subjects.
func among(v v1alpha1.Vote, subjects []v1alpha1.Subject) bool {
	return slices.ContainsFunc(subjects, func(s v1alpha1.Subject) bool { return is(s, v.User, v.Groups) })
}

// maxSubjects is how many subjects a message names, and how many authors or causes.
const maxSubjects = 4

// some returns the first of several names with a separator, and how many more there are.
func some(names []string, separator string) string {
	if more := len(names) - maxSubjects; more > 0 {
		names = append(slices.Clone(names[:maxSubjects]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, separator)
}

// subjectsText returns the subjects as a clause, as in "group dba or user anna".
func subjectsText(subjects []v1alpha1.Subject) string {
	var out []string
	for _, s := range subjects {
		name := s.Name
		if s.Kind == v1alpha1.SubjectServiceAccount {
			name = s.Namespace + "/" + s.Name
		}
		out = append(out, strings.ToLower(s.Kind[:1])+s.Kind[1:]+" "+name)
	}
	return some(out, " or ")
}
