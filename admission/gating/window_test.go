package gating

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// between two hours of a day there is a window for external changes by one vote.
func between(t *testing.T, from string, hours int) *allowance.Set {
	t.Helper()
	r, errs := allowance.CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "office"}, Spec: v1alpha1.ApprovalRuleSpec{
		Match:      v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}},
		Require:    []v1alpha1.RequiredVotes{{Count: 1}},
		BreakGlass: &v1alpha1.BreakGlass{Subjects: []v1alpha1.Subject{{Kind: v1alpha1.SubjectUser, Name: "oncall"}}},
		Windows: &v1alpha1.ApprovalWindows{Allow: []v1alpha1.ApprovalWindow{
			{Schedule: from, Duration: metav1.Duration{Duration: time.Duration(hours) * time.Hour}}}},
	}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return allowance.NewSet(nil, nil, nil).WithRules([]*allowance.Rule{r})
}

// votedFor a difference, with the vote stored.
func votedFor(id, state, vote string) fx.Mod {
	return fx.Annotate(v1alpha1.AnnotationKeyClaims, `[{"content":"c","state":"`+state+`","at":"2026-01-02T11:00:00Z","digest":"`+id+
		`","mode":"once","votes":true,"by":[{"user":"`+vote+`}]`+pendingChild(state)+`}]`)
}

func pendingChild(state string) string {
	if state != string(v1alpha1.ClaimPending) {
		return ""
	}
	return `,"id":"c1","relation":"External"`
}

// A gate that is approved stays closed outside of the windows, and is decided about again when one opens; in one it
// opens, and is decided about again when that closes (KR-14-13, KR-14-16). Noon is on a Friday.
func TestDecideInWindows(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	drift := decideGate(t, gatingOf(drifted, fx.Composite())).Drift.ID
	const vote, glass = `anna","at":"2026-01-02T11:00:00Z"`, `oncall","at":"2026-01-02T11:00:00Z","breakGlass":"it burns"`
	for name, tc := range map[string]struct {
		policies *allowance.Set
		vote     string
		want     Action
		lacks    string
		again    time.Duration
	}{
		"Open": {policies: between(t, "0 10 * * *", 8), vote: vote, want: ActionOpen},
		"Closed": {policies: between(t, "30 15 * * *", 1), vote: vote,
			lacks: "window opens Fri 15:30 UTC (ApprovalRule office)", again: 3*time.Hour + 30*time.Minute},
		"Glass": {policies: between(t, "30 15 * * *", 1), vote: glass, want: ActionOpen},
	} {
		t.Run(name, func(t *testing.T) {
			g := gatingOf(drifted, fx.With(fx.Composite(), votedFor(drift, "open", tc.vote)))
			g.Policies = tc.policies
			d := decideGate(t, g)
			if d.Action != tc.want || d.Lacks != tc.lacks || d.Again != tc.again || !strings.Contains(d.Why, tc.lacks) {
				t.Errorf("%s, lacks %q, again %s: %s", d.Action, d.Lacks, d.Again, d.Why)
			}
		})
	}
}

// TestDecideApprovedBy covers KR-14-63: an opening by an approval names those whose votes counted, and so does the claim that it takes.
func TestDecideApprovedBy(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	drift := decideGate(t, gatingOf(drifted, fx.Composite())).Drift.ID
	const at = `","at":"2026-01-02T11:00:00Z"`
	const anna, bob = `anna` + at, `},{"user":"bob` + at
	for name, tc := range map[string]struct {
		policies *allowance.Set
		votes    string
		want     string
		stored   string
	}{
		"NoRule":      {votes: anna + bob, want: ", by anna and bob"},
		"AllCount":    {policies: between(t, "0 10 * * *", 8), votes: anna + bob, want: ", by anna and bob"},
		"NotMachines": {policies: between(t, "0 10 * * *", 8), votes: `bot` + at + `,"machine":true` + bob, want: ", by bob", stored: "bob"},
		"NoGlass":     {policies: between(t, "0 10 * * *", 8), votes: `bob` + at + `,"breakGlass":"it burns"`, want: ", by bob", stored: "bob"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gatingOf(drifted, fx.With(fx.Composite(), votedFor(drift, "open", tc.votes)))
			g.Policies = tc.policies
			d := decideGate(t, g)
			if d.Action != ActionOpen || d.Approval == nil || d.Approval.Digest != drift {
				t.Fatalf("%s: %s, by %+v", d.Action, d.Why, d.Approval)
			}
			if got := approval.ByText(d.Approval); got != tc.want {
				t.Errorf("the opening is%s, want%s", got, tc.want)
			}
			claim := approval.ParseClaims(d.Claim.Value)[0]
			stored := ""
			for _, v := range claim.Counted {
				stored += v.User
			}
			if stored != tc.stored {
				t.Errorf("the claim stores %q beside its votes, want %q", stored, tc.stored)
			}
			if got := approval.VotesText(approval.Approvers(claim)); got != tc.want {
				t.Errorf("the claim names%s, want%s", got, tc.want)
			}
		})
	}
	if d := decideGate(t, gatingOf(drifted, fx.Composite())); d.Approval != nil {
		t.Errorf("nothing opens, by %+v", d.Approval)
	}
}

// When a window closes, what is open by an approval closes where the provider has begun nothing, and the approval opens it
// again in the next one (KR-14-16).
func TestDecideWhenAWindowCloses(t *testing.T) {
	open := func(verbs, reason string) fx.Mod {
		return func(o *unstructured.Unstructured) {
			fx.Policies(fx.Observe, fx.Update)(o)
			if strings.Contains(verbs, "Delete") {
				fx.Policies(fx.Observe, fx.Delete)(o)
			}
			fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["*"]`, v1alpha1.AnnotationKeyGate,
				`{"state":"open","verbs":[`+verbs+`],"generation":3,"at":"2026-01-02T11:45:00Z","claim":"c1","digest":"d","reason":"`+reason+`"}`)(o)
		}
	}
	const update, deletion = `"Update"`, `"Delete"`
	earlier := fx.Condition("Synced", "True", "R", 2)
	const vote, glass = `anna","at":"2026-01-02T11:00:00Z"`, `oncall","at":"2026-01-02T11:00:00Z","breakGlass":"it burns"`
	for name, tc := range map[string]struct {
		mr    []fx.Mod
		vote  string
		still bool // the window is open
		want  Action
		again time.Duration
	}{
		"NothingBegun":    {mr: []fx.Mod{open(update, v1alpha1.GateReasonApproved), earlier}, vote: vote, want: ActionClose},
		"Open":            {mr: []fx.Mod{open(update, v1alpha1.GateReasonApproved), earlier}, vote: vote, still: true, again: 30 * time.Minute},
		"Begun":           {mr: []fx.Mod{open(update, v1alpha1.GateReasonApproved), fx.Synced}, vote: vote, again: 45 * time.Minute},
		"Unknown":         {mr: []fx.Mod{open(update, v1alpha1.GateReasonApproved), fx.Condition("Synced", "True", "R", 0)}, vote: vote, again: 45 * time.Minute},
		"Glass":           {mr: []fx.Mod{open(update, v1alpha1.GateReasonApproved), earlier}, vote: glass, again: 45 * time.Minute},
		"Changed":         {mr: []fx.Mod{open(update, v1alpha1.GateReasonChanged), earlier}, vote: vote, again: 45 * time.Minute},
		"Deletion":        {mr: []fx.Mod{open(deletion, v1alpha1.GateReasonApproved), fx.Synced}, vote: vote, want: ActionClose},
		"DeletionChanged": {mr: []fx.Mod{open(update+","+deletion, v1alpha1.GateReasonApproved), fx.Synced}, vote: vote, want: ActionOpen},
	} {
		t.Run(name, func(t *testing.T) {
			mr := fx.With(fx.With(fx.Instance(), fx.Ready, fx.Tampered), tc.mr...)
			g := gatingOf(mr, fx.With(fx.Composite(), votedFor("d", "pending", tc.vote)))
			g.Policies = between(t, "30 15 * * *", 1)
			if tc.still {
				g.Policies = between(t, "30 4 * * *", 8)
			}
			d := decideGate(t, g)
			if d.Action != tc.want || d.Again != tc.again {
				t.Fatalf("%s, again %s: %s", d.Action, d.Again, d.Why)
			}
			if d.Action == ActionNone {
				return
			}
			if d.Gate.Reason != v1alpha1.GateReasonWindow {
				t.Errorf("reason %s", d.Gate.Reason)
			}
			after := *g.MR
			after.Annotations = map[string]string{v1alpha1.AnnotationKeyManagementPolicies: mask.FormatAuthor(d.Author),
				v1alpha1.AnnotationKeyGate: mask.FormatGate(d.Gate)}
			if c := ClaimToFinish(&after, g.Holders[1].State); c != nil {
				t.Errorf("the approval is used up: %+v", c)
			}
		})
	}
}

// What a closed window took away opens again by the same approval.
func TestDecideWhenAWindowOpensAgain(t *testing.T) {
	drifted := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered)
	drift := decideGate(t, gatingOf(drifted, fx.Composite())).Drift.ID
	xr := fx.With(fx.Composite(), votedFor(drift, "open", `anna","at":"2026-01-02T11:00:00Z"`))
	g := gatingOf(drifted, xr)
	g.Policies = between(t, "0 10 * * *", 8)
	opened := decideGate(t, g)
	if opened.Action != ActionOpen || opened.Claim == nil {
		t.Fatalf("%s: %s", opened.Action, opened.Why)
	}
	g.Holders[1].State.Annotations[v1alpha1.AnnotationKeyClaims] = opened.Claim.Value
	was := *g.MR
	write := func(d Decision) {
		s := was
		s.Generation, s.ManagementPolicies = g.MR.Generation+1, d.Policies
		s.Annotations = map[string]string{v1alpha1.AnnotationKeyManagementPolicies: mask.FormatAuthor(d.Author), v1alpha1.AnnotationKeyGate: mask.FormatGate(d.Gate)}
		for k, v := range was.Annotations {
			if _, ok := s.Annotations[k]; !ok {
				s.Annotations[k] = v
			}
		}
		g.MR = &s
		g.Holders[0].State = &s
	}
	write(opened)
	g.Now = fx.Noon.Add(6 * time.Hour)
	g.Deadline = 24 * time.Hour
	closed := decideGate(t, g)
	if closed.Action != ActionClose || closed.Gate.Reason != v1alpha1.GateReasonWindow {
		t.Fatalf("%s %s: %s", closed.Action, closed.Gate.Reason, closed.Why)
	}
	write(closed)
	if d := decideGate(t, g); d.Action != ActionNone || d.Lacks == "" || d.Again != 16*time.Hour {
		t.Errorf("closed: %s, lacks %q, again %s", d.Action, d.Lacks, d.Again)
	}
	g.Now = fx.Noon.Add(22 * time.Hour)
	if d := g.Decide(); d.Action != ActionOpen || d.Once || d.Claim != nil || !HasUse(d.Gate, opened.Claim.ID) {
		t.Errorf("the same approval does not open it again: %+v", d)
	}
}
