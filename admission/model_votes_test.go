package admission

import (
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ruleOfTwo is a rule for all changes that need an approval.
var ruleOfTwo = &v1alpha1.ApprovalRule{
	TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindApprovalRule},
	ObjectMeta: metav1.ObjectMeta{Name: "two"},
	Spec: v1alpha1.ApprovalRuleSpec{
		Match:   v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationControllerChild, v1alpha1.RelationExternal}},
		Require: []v1alpha1.RequiredVotes{{Count: 2}},
	},
}

// twoVotes is ruleOfTwo, compiled.
var twoVotes = func() *allowance.Rule {
	r, errs := allowance.CompileRule(ruleOfTwo)
	if len(errs) > 0 {
		panic(errs)
	}
	return r
}()

// elections that the model has seen.
var elections atomic.Int64

// voter is one of three users where votes count.
func (m *model) voter() subject.User {
	if !m.voted {
		return fx.Alice
	}
	return []subject.User{fx.Alice, {Name: "bob"}, {Name: "carl"}}[m.rng.IntN(3)]
}

// voters who approve a difference at once: one, or up to three of whom two may be the same.
func (m *model) voters() int {
	if !m.voted {
		return 1
	}
	return 1 + m.rng.IntN(3)
}

// vote notes that a user approves a difference on a holder.
func (m *model) vote(holder, id string, user subject.User) {
	if m.votes[holder+" "+id] == nil {
		m.votes[holder+" "+id] = map[string]bool{}
	}
	m.votes[holder+" "+id][user.Name] = true
}

// count the votes on the XR and the MRs, as the settler does: their annotations are removed.
func (m *model) count() {
	if !m.voted {
		return
	}
	for _, key := range []string{"xr", "a", "b"} {
		o := m.get(key)
		if o == nil {
			continue
		}
		edits := approval.Counted(o.GetAnnotations())
		if len(edits) > 0 {
			m.store(key, fx.With(o, edited(edits)))
		}
	}
}

// elected: (j) an approval by votes is one of at least two users, who voted for the difference on that holder.
func (m *model) elected(key, holder, id string, by []v1alpha1.Vote) {
	if !m.voted {
		return
	}
	elections.Add(1)
	users := map[string]bool{}
	for _, v := range by {
		users[v.User] = true
		if !m.votes[holder+" "+id][v.User] {
			m.fail("%s: %s did not vote for %s on %s", key, v.User, id, holder)
		}
	}
	if len(users) < 2 {
		m.fail("%s: approved %s on %s by %d votes: %v", key, id, holder, len(users), by)
	}
}
