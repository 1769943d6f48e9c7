package admission

import (
	"context"
	"maps"
	"slices"
	"time"

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
	if ed.req.Unstored() {
		return nil
	}
	u, set := ed.req.User, ed.policySet()
	voter := approval.Voter{Name: u.Name, Machine: u.IsMachine(), Groups: u.Groups, Extra: u.Extra}
	return &approval.Ballot{Vote: voter.Vote(ed.manager, set.Groups(), ed.req.Time), Person: !u.IsMachine(),
		Rules: set.HasRulesFor(ed.req.Namespace), Stored: ed.stored}
}

// voted is the change as ApprovalRules see it.
func (ev *evaluation) voted() []allowance.Change {
	if !ev.policySet().HasRules() {
		return nil
	}
	return []allowance.Change{ev.changeOf(ev.ctx)}
}

// changeOf the object, as ApprovalRules see it.
func (f *facts) changeOf(ctx context.Context) allowance.Change {
	ref := f.req.Ref()
	return allowance.Change{Kind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name, Labels: f.req.Stored().GetLabels(),
		NamespaceLabels: f.namespaceLabels(ctx, ref.Namespace), Relation: v1alpha1.RelationControllerChild,
		Verbs: []v1alpha1.Verb{v1alpha1.Verb(f.verb())}, Changes: f.changes}
}

// namespaceLabels of an object; nil where they cannot be read, which does not make a rule match less (KR-14-23).
func (f *facts) namespaceLabels(ctx context.Context, name string) map[string]string {
	if name == "" {
		return nil
	}
	ns, err := f.World.Namespace(ctx, name, false)
	if err != nil {
		return nil
	}
	return ns.Labels
}

// destroying external resources, as ApprovalRules see it.
func (f *facts) destroying(ctx context.Context, objects []*parent.State) []allowance.Change {
	if !f.policySet().HasRules() {
		return nil
	}
	out := make([]allowance.Change, 0, len(objects))
	for _, o := range objects {
		c := gating.ExternalChange(o, []v1alpha1.Verb{v1alpha1.VerbDelete})
		c.NamespaceLabels = f.namespaceLabels(ctx, o.Namespace)
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
func (f *facts) pollOf(changes []allowance.Change, authors func() []string) *poll {
	rules := f.rulesFor(changes)
	if len(rules) == 0 {
		return nil
	}
	return &poll{rules: rules, authors: authors(), now: f.req.Time}
}

// rulesFor changes: those that match any of them.
func (f *facts) rulesFor(changes []allowance.Change) allowance.Rules {
	var rules allowance.Rules
	for i := range changes {
		for _, r := range f.policySet().Matching(&changes[i]) {
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
