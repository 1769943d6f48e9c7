package admission

import (
	"maps"
	"slices"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// extraOnBehalfOf is the extra of a user in which an authenticator declares for whom it acts: a
// machine that acts for another user is no person (KR-14-06).
const extraOnBehalfOf = v1alpha1.AnnotationPrefix + "on-behalf-of"

// ballot of the user who makes the write; nil where the adapter decides before the write, of which the user
// is not known.
func (ed *editor) ballot() *approval.Ballot {
	if ed.req.Unstored() {
		return nil
	}
	u := ed.req.User
	vote := v1alpha1.Vote{User: u.Name, Machine: u.IsMachine(), At: approval.Stamp(ed.req.Time), Via: ed.manager}
	if of := u.Extra[extraOnBehalfOf]; len(of) > 0 {
		vote.OnBehalfOf = bounded(of[0])
	}
	set := ed.policySet()
	for _, g := range u.Groups {
		if set.Groups().Has(g) {
			vote.Groups = append(vote.Groups, g)
		}
	}
	slices.Sort(vote.Groups)
	return &approval.Ballot{Vote: vote, Person: !u.IsMachine(), Rules: set.HasRulesFor(ed.req.Namespace), Stored: ed.stored}
}

// voted is the change as ApprovalRules see it.
func (ev *evaluation) voted() []allowance.Change {
	if !ev.policySet().HasRules() {
		return nil
	}
	ref := ev.req.Ref()
	return []allowance.Change{{Kind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name, Labels: ev.req.Stored().GetLabels(),
		Relation: v1alpha1.RelationControllerChild, Verbs: []v1alpha1.Verb{v1alpha1.Verb(ev.verb())}, Changes: ev.changes}}
}

// destroying external resources, as ApprovalRules see it.
func (f *facts) destroying(objects []*parent.State) []allowance.Change {
	if !f.policySet().HasRules() {
		return nil
	}
	out := make([]allowance.Change, 0, len(objects))
	for _, o := range objects {
		out = append(out, gating.ExternalChange(o, []v1alpha1.Verb{v1alpha1.VerbDelete}))
	}
	return out
}

// lacks is approval.Query.Lacks for changes that are approved together: the rules that match any of them must
// be met (KR-14-03). authors are those of the changes.
func (f *facts) lacks(changes []allowance.Change, authors func() []string) func([]v1alpha1.Vote) string {
	var rules allowance.Rules
	for i := range changes {
		for _, r := range f.policySet().Matching(&changes[i]) {
			if !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	if len(rules) == 0 {
		return nil
	}
	by := authors()
	return func(votes []v1alpha1.Vote) string { return rules.Lacks(votes, by, f.req.Time) }
}

// authors of the change: who initiated the parent's last intent, and who made what causes the change (KR-14-05).
func (ev *evaluation) authors() []string {
	var out []string
	add := func(user string) {
		if user != "" && !slices.Contains(out, user) {
			out = append(out, user)
		}
	}
	if origin := ev.view().trace.Origin(); origin != nil {
		add(origin.User)
	}
	for _, c := range ev.causes() {
		if add(c.Author); c.Kind == v1alpha1.CauseUser {
			add(c.Name)
		}
	}
	return out
}

// deleters are the person who requests the deletion, and who initiated the object.
func (f *facts) deleters() []string {
	out := trace.Authors(f.req.Stored().GetAnnotations())
	if u := f.req.User; u.Name != "" && !u.IsMachine() && !slices.Contains(out, u.Name) {
		out = append(out, u.Name)
	}
	return out
}

// approvers as a trace has them (KR-14-10): without the groups, which are for the rules alone.
func approvers(votes []v1alpha1.Vote) []v1alpha1.Vote {
	out := slices.Clone(votes)
	for i := range out {
		out[i].Groups = nil
	}
	return out
}

// checkVotes refuses approvals whose votes the object has no room for.
func (ed *editor) checkVotes() *refusal {
	b := ed.ballot()
	if b == nil {
		return nil
	}
	// The votes that count are the stored ones.
	annotations := maps.Clone(ed.incoming)
	annotations[v1alpha1.AnnotationKeyClaims] = ed.stored[v1alpha1.AnnotationKeyClaims]
	why := b.Refused(annotations)
	if why == "" {
		return nil
	}
	return &refusal{code: codeComposed, reason: ReasonInvalidAnnotation, why: why,
		next: "The value withdraw takes your own vote back; the next intent removes all that are not used."}
}
