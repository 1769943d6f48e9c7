package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// requested deletions, in a world.
type requested struct {
	*memoryWorld
	by map[string][]string
}

func (w requested) Known(id string) Known { return Known{Requesters: w.by[id]} }

// TestRecount covers KR-14-62: a deletion that gates are open for is counted once more, with the user who requests it among the authors.
func TestRecount(t *testing.T) {
	xr, mr := parent.Sum(fx.Composite(), parent.RoleComposite), parent.Sum(fx.Instance(), parent.RoleManaged)
	own, whole := identity.DeletionDigest(xr, mr).ID(), identity.WholeOf(xr, []*parent.State{mr}).Digest.ID()
	anna := subject.User{Name: "anna"}
	votes := func(id string, users ...string) fx.Mod {
		c := v1alpha1.Claim{Content: "c", State: v1alpha1.ClaimPending, Relation: v1alpha1.RelationExternal, Generation: 9, At: approval.Stamp(fx.Noon),
			Digest: id, Mode: v1alpha1.ApprovalOnce, Votes: true}
		for _, u := range users {
			c.By = append(c.By, v1alpha1.Vote{User: u, At: approval.Stamp(fx.Noon)})
		}
		return fx.Annotate(v1alpha1.AnnotationKeyClaims, annotation.MustMarshal([]v1alpha1.Claim{c}))
	}
	cases := map[string]struct {
		reason  string
		id      string
		votes   []string
		user    subject.User
		before  []string // who requested it before
		of      *unstructured.Unstructured
		free    bool // no rule
		allowed bool
	}{
		"Another":    {reason: "who did not vote", id: own, votes: []string{"anna"}, user: fx.Alice, allowed: true},
		"Voter":      {reason: "who alone voted", id: own, votes: []string{"anna"}, user: anna},
		"VoterOfTwo": {reason: "beside another", id: own, votes: []string{"anna", "bob"}, user: anna, allowed: true},
		"Before":     {reason: "whose voter requested it before", id: own, votes: []string{"anna"}, before: []string{"anna"}, user: fx.Alice},
		"Machine":    {reason: "nor by a machine that the voter acts as", id: own, votes: []string{"anna"}, before: []string{"anna"}, user: fx.ArgoCD},
		"Collector": {reason: "the garbage collector carries out another deletion", id: own, votes: []string{"anna"}, before: []string{"anna"},
			user: fx.Collector, allowed: true},
		"Crossplane":     {reason: "as Crossplane does", id: own, votes: []string{"anna"}, before: []string{"anna"}, user: fx.Crossplane, allowed: true},
		"NoRule":         {reason: "without a rule one vote of any user is enough", id: own, votes: []string{"anna"}, user: anna, free: true, allowed: true},
		"Whole":          {reason: "of the composite", id: whole, votes: []string{"anna"}, user: anna, of: fx.Composite()},
		"WholeByAnother": {reason: "of the composite", id: whole, votes: []string{"anna"}, user: fx.Alice, of: fx.Composite(), allowed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opened := fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Delete), fx.GateValue(`{"state":"open","verbs":["Delete"],"generation":3,`+
				`"at":"2026-01-02T11:59:00Z","digest":"`+tc.id+`"}`))
			voted := votes(tc.id, tc.votes...)
			w := setting{xr: []fx.Mod{voted}}.world()
			w.managed = []*parent.State{parent.Sum(opened, parent.RoleManaged)}
			e := &Evaluator{World: requested{w, map[string][]string{tc.id: tc.before}}, Options: enforced()}
			if !tc.free {
				e.Policies = ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}},
					Require: []v1alpha1.RequiredVotes{{Count: 1, NotAuthors: true}}})
			}
			o := opened
			if tc.of != nil {
				o = fx.With(tc.of, voted)
			}
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Delete, o), tc.user, ""))
			if err != nil || d.Allowed != tc.allowed {
				t.Fatalf("%s: %v: allowed %t: %s", tc.reason, err, d.Allowed, d.Message)
			}
			if tc.allowed {
				return
			}
			if d.Report == nil || d.Report.Drift.ID != tc.id || (d.Report.Requester == tc.user.Name) == tc.user.IsMachine() {
				t.Errorf("the request is not reported: %+v", d.Report)
			}
			if !strings.Contains(d.Message, "0 of 1 approvals") {
				t.Errorf("the message lacks what is missing: %s", d.Message)
			}
		})
	}
}

// TestRecountBelowInstance: votes on the instance that the labels of a managed resource name count where it contains that (KR-18-01).
func TestRecountBelowInstance(t *testing.T) {
	for kinds, allowed := range map[string]bool{"ConfigMap": false, "ConfigMap,Instance.aws.example.org": true} {
		i, c := instanceAndChild()
		id := identity.DeletionDigest(parent.Sum(i, parent.RoleInstance), parent.Sum(fx.Instance(), parent.RoleManaged)).ID()
		opened := fx.With(fx.Instance(), owners(), fx.Set("team", "metadata", "namespace"), fx.Policies(fx.Observe, fx.Delete),
			fx.GateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:59:00Z","digest":"`+id+`"}`))
		opened.SetLabels(c.GetLabels())
		claims := annotation.MustMarshal([]v1alpha1.Claim{{Content: "c", State: v1alpha1.ClaimPending, Relation: v1alpha1.RelationExternal, Generation: 9,
			At: approval.Stamp(fx.Noon), Digest: id, Mode: v1alpha1.ApprovalOnce, Votes: true, By: []v1alpha1.Vote{{User: "anna", At: approval.Stamp(fx.Noon)}}}})
		w := setting{}.world()
		w.add(fx.With(i, fx.Annotate("applyset.kubernetes.io/contains-group-kinds", kinds, v1alpha1.AnnotationKeyClaims, claims)))
		w.managed = []*parent.State{parent.Sum(opened, parent.RoleManaged)}
		e := &Evaluator{World: requested{w, nil}, Options: enforced(),
			Policies: ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}},
				Require: []v1alpha1.RequiredVotes{{Count: 1, NotAuthors: true}}})}
		d, err := e.Evaluate(t.Context(), by(byCrossplane(Delete, opened), fx.Alice, ""))
		if err != nil || d.Allowed != allowed {
			t.Errorf("%s: %v: %+v: %s", kinds, err, outcomeOf(d), d.Message)
		}
	}
}

// TestRecountByInstance: kro, which carries out the deletion of an instance, is no author of it; the votes for that were counted on what was
// deleted, which may be further up (KR-14-62).
func TestRecountByInstance(t *testing.T) {
	for name, tc := range map[string]struct {
		user    subject.User
		mods    []fx.Mod
		allowed bool
	}{
		"Kro":     {user: kro, mods: []fx.Mod{fx.Deleting}, allowed: true},
		"Dropped": {user: kro},
		"User":    {user: fx.Alice, mods: []fx.Mod{fx.Deleting}},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := instanceAndChild()
			opened := fx.With(fx.Instance(), owners(), fx.Set("team", "metadata", "namespace"), fx.Policies(fx.Observe, fx.Delete),
				fx.GateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:59:00Z","digest":"0123456789abcdef"}`))
			opened.SetLabels(c.GetLabels())
			w := setting{}.world()
			w.add(fx.With(i, append(tc.mods, fx.Annotate("applyset.kubernetes.io/contains-group-kinds", "Instance.aws.example.org"))...))
			w.managed = []*parent.State{parent.Sum(opened, parent.RoleManaged)}
			e := &Evaluator{World: requested{w, nil}, Options: enforced(),
				Policies: ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}},
					Require: []v1alpha1.RequiredVotes{{Count: 1, NotAuthors: true}}})}
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Delete, opened), tc.user, ""))
			require.NoError(t, err)
			assert.Equal(t, tc.allowed, d.Allowed, d.Message)
		})
	}
}

// A vote of a user who requested the deletion before is marked, and no other (KR-14-62).
func TestVoteOfARequester(t *testing.T) {
	xr, mr := parent.Sum(fx.Composite(), parent.RoleComposite), parent.Sum(fx.Instance(), parent.RoleManaged)
	id := identity.DeletionDigest(xr, mr).ID()
	for user, want := range map[string]bool{"anna": true, "bob": false} {
		e := &Evaluator{World: requested{setting{}.world(), map[string][]string{id: {"anna"}}}, Options: enforced(),
			Policies: ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}}})}
		d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once")),
			subject.User{Name: user}, "kubectl"))
		if err != nil || !d.Allowed || d.Annotations[v1alpha1.AnnotationKeyClaims] == nil {
			t.Fatalf("%s: %v: %+v", user, err, outcomeOf(d))
		}
		c := approval.ParseClaims(*d.Annotations[v1alpha1.AnnotationKeyClaims])
		if len(c) != 1 || len(c[0].By) != 1 || c[0].By[0].Author != want {
			t.Errorf("%s: %+v", user, c)
		}
	}
}

// TestUnreadAuthors: a vote does not count where the user may be an author who cannot be read (KR-14-61).
func TestUnreadAuthors(t *testing.T) {
	late := fmt.Errorf("cannot read it: %w", context.DeadlineExceeded)
	build := allowance.Build{Fingerprint: "f2", Functions: []string{"a-1", "b-1", "c-1", "d-1", "e-1"}}
	for name, tc := range map[string]struct {
		reason        string
		author        string
		of            string // the cause of that author; "" for all
		failed, built error
		mayVote       bool // authors, too
		allowed       bool
		want          string
	}{
		"Read":      {reason: "by another user", author: "carl", allowed: true},
		"Author":    {reason: "who voted", author: "anna", want: "not alice or anna"},
		"Last":      {reason: "of more revisions than a hop names", author: "anna", of: "e-1", want: "not alice or anna"},
		"Unknown":   {reason: "nothing names the author, which the rule ignores", allowed: true},
		"Unread":    {reason: "it may be anna", failed: late, want: "as long as authors of the change cannot be read: those of db-rev-2 (ApprovalRule office)"},
		"MayVote":   {reason: "authors may vote by this rule", failed: late, mayVote: true, allowed: true},
		"Functions": {reason: "the Functions may be anna's", author: "carl", built: late, want: "those of the revisions that make it (ApprovalRule office)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stubs{Options: enforced(), author: func(_ context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
				if tc.of == "" || tc.of == c.Name {
					c.Author = tc.author
				}
				return c, tc.failed
			}}
			evaluate := func(req *Request, mods ...fx.Mod) Decision {
				var w World = builtWorld{setting{xr: mods}.world(), build}
				if tc.built != nil {
					w = unbuiltWorld{setting{xr: mods}.world()}
				}
				e := s.of(w)
				e.Policies = ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationControllerChild}},
					Require: []v1alpha1.RequiredVotes{{Count: 1, NotAuthors: !tc.mayVote}}})
				d, err := e.Evaluate(t.Context(), req)
				require.NoError(t, err)
				return d
			}
			change := byCrossplane(Update, fx.Instance(), fx.Resize("xl"))
			held := evaluate(change)
			require.False(t, held.Allowed)
			require.LessOrEqual(t, len(held.Report.Drift.Causes), v1alpha1.MaxHopCauses)
			approved := fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+held.Report.Drift.ID, "once")
			voted := evaluate(by(byCrossplane(Update, fx.Composite(), approved), subject.User{Name: "anna"}, "kubectl"))
			require.NotNil(t, voted.Annotations[v1alpha1.AnnotationKeyClaims], voted.Message)
			d := evaluate(change, approved, fx.Annotate(v1alpha1.AnnotationKeyClaims, *voted.Annotations[v1alpha1.AnnotationKeyClaims]))
			assert.Equal(t, tc.allowed, d.Allowed, "%s: %s", tc.reason, d.Message)
			assert.Contains(t, d.Message, tc.want, tc.reason)
		})
	}
}

// TestInitiators covers KR-14-61: who initiated the intents of an object is kept where ApprovalRules are about its Namespace, and counts from
// the intent on after which a change was first held.
func TestInitiators(t *testing.T) {
	rules := ruleSet(t, v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationControllerChild}},
		Require: []v1alpha1.RequiredVotes{{Count: 1, NotAuthors: true}}})
	intent := func(p Policies, user string) Decision {
		e := &Evaluator{World: setting{}.world(), Options: enforced(), Policies: p}
		d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, fx.Composite(), fx.Set("l", "spec", "size")), subject.User{Name: user}, "kubectl"))
		if err != nil || !d.Allowed {
			t.Fatalf("%v: %+v", err, outcomeOf(d))
		}
		return d
	}
	if d := intent(nil, "bob"); d.Annotations[v1alpha1.AnnotationKeyAuthors] != nil {
		t.Error("without rules no author is kept")
	}
	d := intent(rules, "bob")
	value := d.Annotations[v1alpha1.AnnotationKeyAuthors]
	if value == nil || *value != `[{"user":"alice","generation":5},{"user":"bob","generation":8}]` {
		t.Fatalf("authors: %v", d.Annotations)
	}
	later := setting{xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyAuthors, *value, v1alpha1.AnnotationKeyTrace, *d.Annotations[v1alpha1.AnnotationKeyTrace],
		v1alpha1.AnnotationKeySettledGeneration, "8"), fx.Set(int64(8), "metadata", "generation"), fx.Set("l", "spec", "size")}}
	for name, tc := range map[string]struct {
		since int64 // 0: nothing was held before
		want  []string
	}{
		"New":    {want: []string{"bob"}},
		"Held":   {since: 5, want: []string{"bob", "alice"}},
		"Before": {since: 3, want: []string{"bob", "alice", "one author is unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			req := byCrossplane(Update, fx.Instance(), fx.Resize("xl"))
			if tc.since > 0 {
				req.Held = &Held{Whole: true, Since: v1alpha1.SettledIntent{Generation: tc.since}}
			}
			s := stubs{Options: enforced(), author: func(_ context.Context, c v1alpha1.HopCause) (v1alpha1.HopCause, error) {
				c.Author = "carl"
				return c, nil
			}}
			e := s.of(later.world())
			e.Policies = rules
			got, err := e.Evaluate(t.Context(), req)
			if err != nil || got.Allowed {
				t.Fatalf("%v: %+v: %s", err, outcomeOf(got), got.Message)
			}
			for _, author := range []string{"bob", "alice", "one author is unknown"} {
				if is := strings.Contains(got.Message, author); is != slices.Contains(tc.want, author) {
					t.Errorf("%s: %t: %s", author, is, got.Message)
				}
			}
		})
	}
}
