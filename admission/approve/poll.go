package approve

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Poll holds the requirements of ApprovalRules for changes that are approved together; nil where no rule matches.
type Poll struct {
	rules   allowance.Rules
	authors allowance.Authors
	now     time.Time
}

// PollOf returns the Poll for changes that are approved together: the rules that match any of them must be met
// (KR-14-03). authors are those of the changes.
func PollOf(f *facts.Facts, changes []allowance.Change, authors func() allowance.Authors) *Poll {
	rules := f.PolicySet().MatchingAny(changes)
	if len(rules) == 0 {
		return nil
	}
	return &Poll{rules: rules, authors: authors(), now: f.Req.Time}
}

// DeletionPoll returns the Poll for what the deletion of an object with these annotations destroys. id is what approves the deletion.
func DeletionPoll(f *facts.Facts, annotations map[string]string, destroyed []allowance.Change, id string) *Poll {
	return PollOf(f, destroyed, func() allowance.Authors { return deleters(f, annotations, id) })
}

// RulesAbout returns the rules that may match a change of an object, or of its external resource.
func RulesAbout(ctx context.Context, f *facts.Facts, o *unstructured.Unstructured) allowance.Rules {
	if !f.PolicySet().HasRules() {
		return nil
	}
	c := allowance.Change{Kind: o.GroupVersionKind().GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(),
		NamespaceLabels: namespaceLabels(ctx, f, o.GetNamespace())}
	return f.PolicySet().About(&c)
}

// Lacks returns the function for approval.Query.Lacks; nil for a nil Poll.
func (p *Poll) Lacks() func([]v1alpha1.Vote) (string, bool) {
	if p == nil {
		return nil
	}
	return func(votes []v1alpha1.Vote) (string, bool) { return p.rules.Lacks(votes, p.authors, p.now) }
}

// Counted returns the function for approval.Query.Counted; nil for a nil Poll.
func (p *Poll) Counted() func([]v1alpha1.Vote) []v1alpha1.Vote {
	if p == nil {
		return nil
	}
	return func(votes []v1alpha1.Vote) []v1alpha1.Vote { return p.rules.Counted(votes, p.authors, p.now) }
}

// Needs returns the needs of each rule, and what the votes lack by it (KR-14-18); nil where no rule matches.
func (p *Poll) Needs(votes []v1alpha1.Vote) []allowance.Need {
	if p == nil {
		return nil
	}
	return p.rules.Needs(votes, p.authors, p.now)
}

// deleters returns the users who initiated the object, and all who requested the deletion that an id approves
// (KR-14-62).
func deleters(f *facts.Facts, annotations map[string]string, id string) allowance.Authors {
	out := allowance.Authors{Names: trace.Authors(annotations, math.MaxInt64)}
	if u := f.Req.User; u.Name != "" && !u.IsMachine() {
		out.Add(u.Name)
	}
	for _, user := range f.World.Known(id).Requesters {
		out.Add(user)
	}
	return out
}
