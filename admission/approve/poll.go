package approve

import (
	"context"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Poll is what ApprovalRules require for changes that are approved together; nil where none matches.
type Poll struct {
	rules   allowance.Rules
	authors []string
	now     time.Time
}

// PollOf changes that are approved together: the rules that match any of them must be met (KR-14-03).
// authors are those of the changes.
func PollOf(f *facts.Facts, changes []allowance.Change, authors func() []string) *Poll {
	rules := RulesFor(f, changes)
	if len(rules) == 0 {
		return nil
	}
	return &Poll{rules: rules, authors: authors(), now: f.Req.Time}
}

// RulesFor changes: those that match any of them.
func RulesFor(f *facts.Facts, changes []allowance.Change) allowance.Rules {
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

// RulesAbout an object: those that may match a change of it, or of its external resource.
func RulesAbout(ctx context.Context, f *facts.Facts, o *unstructured.Unstructured) allowance.Rules {
	if !f.PolicySet().HasRules() {
		return nil
	}
	c := allowance.Change{Kind: o.GroupVersionKind().GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(),
		NamespaceLabels: namespaceLabels(ctx, f, o.GetNamespace())}
	return f.PolicySet().About(&c)
}

// Lacks is approval.Query.Lacks.
func (p *Poll) Lacks() func([]v1alpha1.Vote) (string, bool) {
	if p == nil {
		return nil
	}
	return func(votes []v1alpha1.Vote) (string, bool) { return p.rules.Lacks(votes, p.authors, p.now) }
}

// Needs are what the rules require, and what the votes lack by each (KR-14-18); nil for no rule.
func (p *Poll) Needs(votes []v1alpha1.Vote) []allowance.Need {
	if p == nil {
		return nil
	}
	return p.rules.Needs(votes, p.authors, p.now)
}

// Deleters are who initiated the object, and all who requested its deletion, which an id approves (KR-14-62).
func Deleters(f *facts.Facts, id string) []string {
	out := trace.Authors(f.Req.Stored().GetAnnotations(), math.MaxInt64)
	add := func(user string) {
		if user != "" && !slices.Contains(out, user) {
			out = append(out, user)
		}
	}
	if u := f.Req.User; !u.IsMachine() {
		add(u.Name)
	}
	for _, user := range f.World.Requesters(id) {
		add(user)
	}
	return out
}

// Approvers as a trace has them (KR-14-10): without the groups, which are for the rules alone.
func Approvers(votes []v1alpha1.Vote) []v1alpha1.Vote {
	out := slices.Clone(votes)
	for i := range out {
		out[i].Groups = nil
	}
	return out
}
