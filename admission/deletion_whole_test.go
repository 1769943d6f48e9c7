package admission

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// votesFor a difference, on the object that is voted on.
func votesFor(digest change.Digest, users ...string) fx.Mod {
	c := v1alpha1.Claim{Content: "c", State: v1alpha1.ClaimOpen, Relation: v1alpha1.RelationExternal, Generation: 5, At: approval.Stamp(fx.Noon),
		Digest: digest.ID(), Bound: digest.Whole(), Mode: v1alpha1.ApprovalOnce, Votes: true}
	for _, u := range users {
		c.By = append(c.By, v1alpha1.Vote{User: u, At: approval.Stamp(fx.Noon)})
	}
	return fx.Annotate(v1alpha1.AnnotationKeyClaims, annotation.MustMarshal([]v1alpha1.Claim{c}))
}

// databaseRule requires two votes for the deletion of a Database.
func databaseRule() v1alpha1.ApprovalRuleSpec {
	return v1alpha1.ApprovalRuleSpec{
		Match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"Database"}}},
			Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}},
		Require: []v1alpha1.RequiredVotes{{Count: 2, NotAuthors: true}}}
}

// shut is the gate of a managed resource that was confirmed.
var shut = fx.GateValue(`{"state":"closed","verbs":["Update"],"generation":3,"at":"2026-01-02T11:30:00Z"}`)

// databaseOf returns the Database next to the Instance.
func databaseOf(mods ...fx.Mod) *unstructured.Unstructured {
	other := fx.With(fx.Instance(), fx.Set("Database", "kind"), fx.Set("db", "metadata", "name"), fx.Set("uid-db", "metadata", "uid"), shut)
	return fx.With(other, mods...)
}

// TestGate_WholeNeedsVotesForAll covers KR-14-03: the approval of a composite's deletion opens no gate below it as long as it lacks votes that an
// ApprovalRule about any of the managed resources requires, or a part of it is rejected.
func TestGate_WholeNeedsVotesForAll(t *testing.T) {
	carls := trace.Trace{fx.Hop(fx.Composite(), 5, "carl"), fx.Hop(fx.Instance(), 3, fx.Crossplane.Name)}
	unmasked := []fx.Mod{fx.Policies("*"), fx.Unannotate(v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate)}
	for name, tc := range map[string]struct {
		reason   string
		xr       []fx.Mod
		instance []fx.Mod
		database []fx.Mod
		votes    []string
		opens    bool
	}{
		"One": {reason: "the Database needs two", votes: []string{"anna"}},
		"Two": {reason: "as there are", votes: []string{"anna", "bob"}, opens: true},
		"Orphaned": {reason: "nothing of the Database is deleted", votes: []string{"anna"}, opens: true,
			database: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan")}},
		"Deleting": {reason: "it is being deleted already", database: []fx.Mod{fx.Deleting}, votes: []string{"anna"}, opens: true},
		"Paused": {reason: "once it goes on, its external resource is deleted", votes: []string{"anna"},
			database: append(slices.Clone(unmasked), fx.Policies())},
		"Unmasked": {reason: "nor is what is not masked yet left out", votes: []string{"anna"}, database: unmasked},
		"Opened": {reason: "or what another approval opened", votes: []string{"anna"}, database: []fx.Mod{fx.Policies(fx.Observe, fx.Delete),
			fx.GateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:59:00Z"}`)}},
		"Author": {reason: "the vote of the composite's author does not count, also where the Instance has another", votes: []string{"anna", "alice"},
			instance: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyTrace, carls.String())}},
		"Rejected": {reason: "a part is rejected", votes: []string{"anna", "bob"},
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, `[{"apiVersion":"aws.example.org/v1","kind":"Database","name":"db","reason":"not today"}]`)}},
	} {
		t.Run(name, func(t *testing.T) {
			instance := fx.With(fx.Instance(), append([]fx.Mod{fx.Synced, fx.Ready, shut}, tc.instance...)...)
			below := []*parent.State{parent.Sum(instance, parent.RoleManaged), parent.Sum(databaseOf(tc.database...), parent.RoleManaged)}
			whole := identity.WholeOf(parent.Sum(fx.Composite(), parent.RoleComposite), below)
			g := gatingOf(instance, fx.With(fx.Composite(), append(tc.xr, votesFor(whole.Digest, tc.votes...))...))
			g.Holders[1].Whole = func() (identity.Whole, bool) { return whole, true }
			g.Policies = ruleSet(t, databaseRule())
			d := g.Decide()
			if opens := d.Action == gating.ActionOpen && slices.Contains(d.Gate.Verbs, v1alpha1.VerbDelete); opens != tc.opens {
				t.Errorf("%s: opens %t, want %t: %+v", tc.reason, opens, tc.opens, d)
			}
		})
	}
}

// TestGate_WholeInWindows covers KR-14-16: a gate that the approval of a composite's deletion opened closes with the window of a rule that is about
// any of the managed resources.
func TestGate_WholeInWindows(t *testing.T) {
	for schedule, closes := range map[string]bool{"30 11 * * *": false, notNow: true} {
		spec := databaseRule()
		spec.Windows = at(schedule)
		instance := fx.With(fx.Instance(), fx.Synced, fx.Ready)
		below := []*parent.State{parent.Sum(instance, parent.RoleManaged), parent.Sum(databaseOf(), parent.RoleManaged)}
		whole := identity.WholeOf(parent.Sum(fx.Composite(), parent.RoleComposite), below)
		instance = fx.With(instance, fx.Policies(fx.Observe, fx.Delete), fx.GateValue(`{"state":"open","verbs":["Delete"],"generation":3,`+
			`"at":"2026-01-02T11:59:00Z","deleteAt":"2026-01-02T11:59:00Z","reason":"Approved","digest":"`+whole.Digest.ID()+`"}`))
		g := gatingOf(instance, fx.With(fx.Composite(), votesFor(whole.Digest, "anna", "bob")))
		g.Holders[1].Whole = func() (identity.Whole, bool) { return whole, true }
		g.Policies = ruleSet(t, spec)
		d := g.Decide()
		if closed := d.Action == gating.ActionClose && d.Gate.Reason == v1alpha1.GateReasonWindow; closed != closes {
			t.Errorf("%s: closes %t, want %t: %+v", schedule, closed, closes, d)
		}
	}
}

// TestDeleteOfWhole covers KR-14-03 and KR-14-62: what is deleted by the approval of its composite's deletion is so by the votes that this needs,
// without those of the user who requests it, also where no ApprovalRule is about it alone.
func TestDeleteOfWhole(t *testing.T) {
	const opened = `{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:59:00Z","digest":"`
	paused := []fx.Mod{fx.Policies(), fx.Unannotate(v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate)}
	open := func(id string) []fx.Mod {
		return []fx.Mod{fx.Policies(fx.Observe, fx.Delete), fx.GateValue(opened + id + `"}`)}
	}
	for name, tc := range map[string]struct {
		reason             string
		instance, database []fx.Mod // nil: opened by the approval
		whole              bool     // of the composite
		votes              []string
		user               string
		allowed            bool
	}{
		"PausedOne":      {reason: "the Database needs two", instance: paused, votes: []string{"anna"}, user: "carl"},
		"PausedTwo":      {reason: "as there are", instance: paused, votes: []string{"anna", "bob"}, user: "carl", allowed: true},
		"PausedVoter":    {reason: "the vote of the requester does not count", instance: paused, votes: []string{"anna", "bob"}, user: "bob"},
		"Voter":          {reason: "nor behind an open gate", votes: []string{"anna", "bob"}, user: "bob"},
		"Another":        {reason: "two others voted", votes: []string{"anna", "bob"}, user: "carl", allowed: true},
		"SiblingPaused":  {reason: "nor where the Database waits", database: paused, votes: []string{"anna", "bob"}, user: "bob"},
		"SiblingClosed":  {reason: "or has closed again", database: []fx.Mod{shut}, votes: []string{"anna", "bob"}, user: "bob"},
		"Composite":      {reason: "two votes for all", whole: true, votes: []string{"anna", "bob"}, user: "carl", allowed: true},
		"CompositeVoter": {reason: "one of which is the requester's", whole: true, votes: []string{"anna", "bob"}, user: "bob"},
		"CompositeOne": {reason: "an approval of the Database alone is none of the Instance", whole: true, instance: []fx.Mod{shut},
			database: open("0123456789abcdef"), votes: []string{"anna"}, user: "carl"},
	} {
		t.Run(name, func(t *testing.T) {
			sum := func(o *unstructured.Unstructured) *parent.State { return parent.Sum(o, parent.RoleManaged) }
			digest := identity.WholeOf(parent.Sum(fx.Composite(), parent.RoleComposite), []*parent.State{sum(fx.Instance()), sum(databaseOf())}).Digest
			if tc.instance == nil {
				tc.instance = open(digest.ID())
			}
			if tc.database == nil {
				tc.database = open(digest.ID())
			}
			instance, voted := fx.With(fx.Instance(), tc.instance...), votesFor(digest, tc.votes...)
			w := setting{xr: []fx.Mod{voted}}.world()
			w.managed = []*parent.State{sum(instance), sum(databaseOf(tc.database...))}
			e := &Evaluator{World: requested{w, nil}, Options: enforced(), Policies: ruleSet(t, databaseRule())}
			deleted := instance
			if tc.whole {
				deleted = fx.With(fx.Composite(), voted)
			}
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Delete, deleted), subject.User{Name: tc.user}, ""))
			if err != nil || d.Allowed != tc.allowed {
				t.Errorf("%s: %v: allowed %t: %s", tc.reason, err, d.Allowed, d.Message)
			}
		})
	}
}

// TestDeletePartOfWhole covers KR-14-03 and KR-13-60: an approval of the composite's deletion that is not enough for an object lets that object
// not be deleted in another way.
func TestDeletePartOfWhole(t *testing.T) {
	sum := func(o *unstructured.Unstructured) *parent.State { return parent.Sum(o, parent.RoleManaged) }
	waits := fx.With(fx.Instance(), fx.Policies(), fx.Unannotate(v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate), fx.Deleting)
	const opened = `{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:59:00Z","digest":"`
	const rejected = `[{"apiVersion":"aws.example.org/v1","kind":"Database","name":"db","reason":"not today"}]`
	open := func(id string) []fx.Mod {
		return []fx.Mod{fx.Policies(fx.Observe, fx.Delete), fx.GateValue(opened + id + `"}`)}
	}
	orphans := `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {apiGroup: example.org, apiVersion: v1, kind: XDatabase}, ` +
		`deleting: {allow: [{target: {apiGroup: aws.example.org, apiVersion: v1, kind: Instance}, relation: External, verbs: [Delete]}]}}}`
	whole := func(database *unstructured.Unstructured) change.Digest {
		return identity.WholeOf(parent.Sum(fx.Composite(), parent.RoleComposite), []*parent.State{sum(fx.Instance()), sum(database)}).Digest
	}
	id := whole(databaseOf())
	for name, tc := range map[string]struct {
		reason             string
		kind               string // that the rule is about; Database where empty
		instance, database *unstructured.Unstructured
		xr                 []fx.Mod
		policies           []string
		request            func(xr, instance *unstructured.Unstructured) *Request
		why                string // "" where it is allowed
	}{
		"Terminating": {reason: "one vote of two deletes nothing that waited", kind: "Instance", instance: waits, database: databaseOf(),
			xr: []fx.Mod{votesFor(id, "anna")}, why: "of 2 approvals",
			request: func(_, instance *unstructured.Unstructured) *Request {
				return by(byCrossplane(Update, instance, fx.Policies("*")), fx.Alice, "kubectl")
			}},
		"TerminatingVoted": {reason: "two do", kind: "Instance", instance: waits, database: databaseOf(), xr: []fx.Mod{votesFor(id, "anna", "bob")},
			request: func(_, instance *unstructured.Unstructured) *Request {
				return by(byCrossplane(Update, instance, fx.Policies("*")), fx.Alice, "kubectl")
			}},
		"Rejected": {reason: "a part that waits for nothing is rejected", instance: fx.With(fx.Instance(), shut),
			database: databaseOf(open("0123456789abcdef")...), why: "not today",
			xr: []fx.Mod{votesFor(id, "anna", "bob"), fx.Annotate(v1alpha1.AnnotationKeyRejections, rejected)},
			request: func(xr, _ *unstructured.Unstructured) *Request {
				return by(byCrossplane(Delete, xr), subject.User{Name: "carl"}, "")
			}},
		"VoterWithPolicy": {reason: "a policy that leaves the Database behind closes no gate that is open", instance: fx.With(fx.Instance(), open(id.ID())...),
			database: databaseOf(open(id.ID())...), xr: []fx.Mod{votesFor(id, "anna", "bob")}, policies: []string{orphans}, why: "1 of 2 approvals",
			request: func(xr, _ *unstructured.Unstructured) *Request {
				return by(byCrossplane(Delete, xr), subject.User{Name: "bob"}, "")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			w := setting{xr: tc.xr}.world()
			w.managed = []*parent.State{sum(tc.instance), sum(tc.database)}
			rule := databaseRule()
			rule.Match.Resources[0].Kinds[0] = cmp.Or(tc.kind, "Database")
			e := &Evaluator{World: requested{w, nil}, Options: enforced(), Policies: policySet(t, tc.policies...).WithRulesOf(ruleSet(t, rule))}
			d, err := e.Evaluate(t.Context(), tc.request(fx.With(fx.Composite(), tc.xr...), tc.instance))
			if err != nil || d.Allowed != (tc.why == "") || !strings.Contains(d.Message, tc.why) {
				t.Errorf("%s: %v: allowed %t: %s", tc.reason, err, d.Allowed, d.Message)
			}
		})
	}
}

// TestRecountStale covers KR-14-64: votes from before the last intent of a composite do not count for its deletion, whatever the cache has.
func TestRecountStale(t *testing.T) {
	sum := func(o *unstructured.Unstructured) *parent.State { return parent.Sum(o, parent.RoleManaged) }
	whole := identity.WholeOf(parent.Sum(fx.Composite(), parent.RoleComposite), []*parent.State{sum(fx.Instance())}).Digest
	opened := fx.With(fx.Instance(), fx.Policies(fx.Observe, fx.Delete),
		fx.GateValue(`{"state":"open","verbs":["Delete"],"generation":3,"at":"2026-01-02T11:59:00Z","digest":"`+whole.ID()+`"}`))
	before := fx.With(fx.Composite(), votesFor(whole, "anna"))
	after := fx.With(before, fx.Set(int64(6), "metadata", "generation"),
		fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{fx.Hop(fx.Composite(), 6, "alice")}.String()))
	for name, tc := range map[string]struct {
		deleted *unstructured.Unstructured
		allowed bool
	}{"Same": {deleted: before, allowed: true}, "Later": {deleted: after}} {
		w := newWorld()
		w.add(before)
		w.managed = []*parent.State{sum(opened)}
		e := &Evaluator{World: requested{w, nil}, Options: enforced(), Policies: ruleSet(t, v1alpha1.ApprovalRuleSpec{
			Match: v1alpha1.ApprovalRuleMatch{Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}}})}
		d, err := e.Evaluate(t.Context(), by(byCrossplane(Delete, tc.deleted), subject.User{Name: "carl"}, ""))
		if err != nil || d.Allowed != tc.allowed {
			t.Errorf("%s: %v: allowed %t: %s", name, err, d.Allowed, d.Message)
		}
	}
}
