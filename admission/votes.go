package admission

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/outcome"

	"github.com/kausality-io/function-kausality/admission/facts"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ballot of the user who makes the write; nil where the adapter decides before the write, of which the user
// is not known.
func (ed *editor) ballot() *approval.Ballot {
	if ed.Req.Unstored() {
		return nil
	}
	u, set := ed.Req.User, ed.PolicySet()
	voter := approval.Voter{Name: u.Name, Machine: u.IsMachine(), Groups: u.Groups, Extra: u.Extra}
	return &approval.Ballot{Vote: voter.Vote(ed.Manager, set.Groups(), ed.Req.Time), Person: !u.IsMachine(),
		Rules: set.HasRulesFor(ed.Req.Namespace), Stored: ed.stored}
}

// voted is the change as ApprovalRules see it.
func (ev *evaluation) voted() []allowance.Change {
	if !ev.PolicySet().HasRules() {
		return nil
	}
	return []allowance.Change{changeOf(ev.ctx, ev.Facts)}
}

// changeOf the object, as ApprovalRules see it.
func changeOf(ctx context.Context, f *facts.Facts) allowance.Change {
	ref := f.Req.Ref()
	return allowance.Change{Kind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name, Labels: f.Req.Stored().GetLabels(),
		NamespaceLabels: namespaceLabels(ctx, f, ref.Namespace), Relation: v1alpha1.RelationControllerChild,
		Verbs: []v1alpha1.Verb{v1alpha1.Verb(f.Verb())}, Changes: f.Changes}
}

// namespaceLabels of an object; nil where they cannot be read, which does not make a rule match less (KR-14-23).
func namespaceLabels(ctx context.Context, f *facts.Facts, name string) map[string]string {
	if name == "" {
		return nil
	}
	ns, err := f.World.Namespace(ctx, name, false)
	if err != nil {
		return nil
	}
	return ns.Labels
}

// zDestroying external resources, as ApprovalRules see it.
func zDestroying(ctx context.Context, f *facts.Facts, objects []*parent.State) []allowance.Change {
	if !f.PolicySet().HasRules() {
		return nil
	}
	out := make([]allowance.Change, 0, len(objects))
	for _, o := range objects {
		c := gating.ExternalChange(o, []v1alpha1.Verb{v1alpha1.VerbDelete})
		c.NamespaceLabels = namespaceLabels(ctx, f, o.Namespace)
		out = append(out, c)
	}
	return out
}

// poll is what ApprovalRules require for changes that are approved together; nil where none matches.
type poll struct {
	rules   allowance.Rules
	authors []string
	now     time.Time
}

// pollOf changes that are approved together: the rules that match any of them must be met (KR-14-03).
// authors are those of the changes.
func pollOf(f *facts.Facts, changes []allowance.Change, authors func() []string) *poll {
	rules := rulesFor(f, changes)
	if len(rules) == 0 {
		return nil
	}
	return &poll{rules: rules, authors: authors(), now: f.Req.Time}
}

// rulesFor changes: those that match any of them.
func rulesFor(f *facts.Facts, changes []allowance.Change) allowance.Rules {
	var rules allowance.Rules
	for i := range changes {
		for _, r := range f.PolicySet().Matching(&changes[i]) {
			if !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// lacks is approval.Query.Lacks.
func (p *poll) lacks() func([]v1alpha1.Vote) (string, bool) {
	if p == nil {
		return nil
	}
	return func(votes []v1alpha1.Vote) (string, bool) { return p.rules.Lacks(votes, p.authors, p.now) }
}

// needs are what the rules require, and what the votes lack by each (KR-14-18); nil for no rule.
func (p *poll) needs(votes []v1alpha1.Vote) []allowance.Need {
	if p == nil {
		return nil
	}
	return p.rules.Needs(votes, p.authors, p.now)
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

// zDeleters are the person who requests the deletion, and who initiated the object.
func zDeleters(f *facts.Facts) []string {
	out := trace.Authors(f.Req.Stored().GetAnnotations())
	if u := f.Req.User; u.Name != "" && !u.IsMachine() && !slices.Contains(out, u.Name) {
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
func (ed *editor) checkVotes() *outcome.Refusal {
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
	return &outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonInvalidAnnotation, Why: why,
		Next: "The value withdraw takes your own vote back; the next intent removes all that are not used."}
}
