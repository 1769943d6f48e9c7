package admission

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/annotation"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ruleSet of one ApprovalRule.
func ruleSet(t *testing.T, spec v1alpha1.ApprovalRuleSpec) *allowance.Set {
	t.Helper()
	if len(spec.Require) == 0 {
		spec.Require = []v1alpha1.RequiredVotes{{Count: 1}}
	}
	r, errs := allowance.CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "office"}, Spec: spec})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return allowance.NewSet(nil, nil, nil).WithRules([]*allowance.Rule{r})
}

// at is an hour in which windows are open; it is noon in all tests.
func at(schedule string) *v1alpha1.ApprovalWindows {
	return &v1alpha1.ApprovalWindows{Allow: []v1alpha1.ApprovalWindow{{Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}}}}
}

const (
	openNow  = "0 12 * * *"
	notNow   = "0 18 * * *"
	breaking = "break-glass: it burns"
)

// TestWindowsWithoutVotes covers KR-14-20 and KR-14-21: what needs no approval waits for the windows of the rules that
// apply to it, and for nothing else.
func TestWindowsWithoutVotes(t *testing.T) {
	instances := []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"Instance"}}}
	all := []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"*"}}}
	rule := func(schedule string, to ...v1alpha1.AppliesTo) v1alpha1.ApprovalRuleSpec {
		return v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Resources: instances}, AppliesTo: to, Windows: at(schedule)}
	}
	of := func(m v1alpha1.ApprovalRuleMatch, to ...v1alpha1.AppliesTo) v1alpha1.ApprovalRuleSpec {
		return v1alpha1.ApprovalRuleSpec{Match: m, AppliesTo: to, Windows: at(notNow)}
	}
	expected, origin := v1alpha1.AppliesToExpected, v1alpha1.AppliesToNewOrigin
	resize := func() *Request { return byCrossplane(Update, fx.Instance(), fx.Resize("l")) }
	unsettled := []fx.Mod{fx.Unsettled}
	closed := func(c outcome.Class) [2]wantedOutcome {
		code := int32(403)
		if c == outcome.ClassExpected {
			code = outcome.CodeComposed
		}
		return [2]wantedOutcome{refused(c, outcome.ReasonWindowClosed, code), allowed(c, outcome.ReasonWindowClosed)}
	}
	same := func(o wantedOutcome) [2]wantedOutcome { return [2]wantedOutcome{o, o} }
	fresh := func(o *unstructured.Unstructured) {
		fx.Unannotate(v1alpha1.AnnotationKeyPhase, v1alpha1.AnnotationKeySettledGeneration)(o)
		unstructured.RemoveNestedField(o.Object, "status")
	}
	cases := map[string]struct {
		reason string
		rule   v1alpha1.ApprovalRuleSpec
		xr     []fx.Mod
		req    *Request
		want   [2]wantedOutcome
	}{
		"Expected": {reason: "what an intent causes waits", rule: rule(notNow, expected), xr: unsettled, req: resize(), want: closed(outcome.ClassExpected)},
		"Open": {reason: "until they open", rule: rule(openNow, expected), xr: unsettled, req: resize(),
			want: same(allowed(outcome.ClassExpected, outcome.ReasonExpected))},
		"Default": {reason: "a rule applies to drift and external changes alone", rule: rule(notNow), xr: unsettled, req: resize(),
			want: same(allowed(outcome.ClassExpected, outcome.ReasonExpected))},
		"OnlyOrigins": {reason: "those of other users are others", rule: rule(notNow, origin), xr: unsettled, req: resize(),
			want: same(allowed(outcome.ClassExpected, outcome.ReasonExpected))},
		"OtherKind": {reason: "what does not match", xr: unsettled, req: resize(), want: same(allowed(outcome.ClassExpected, outcome.ReasonExpected)),
			rule: of(v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"Bucket"}}}}, expected)},
		"External": {reason: "the change of a managed resource changes what is outside", xr: unsettled, req: resize(), want: closed(outcome.ClassExpected),
			rule: of(v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}}, expected)},
		"OtherPath": {reason: "another field", xr: unsettled, req: resize(), want: same(allowed(outcome.ClassExpected, outcome.ReasonExpected)),
			rule: of(v1alpha1.ApprovalRuleMatch{Paths: []string{"spec.forProvider.region"}}, expected)},
		"Initializing": {reason: "what was never ready is made at any time", rule: rule(notNow, expected), xr: []fx.Mod{fresh}, req: resize(),
			want: same(allowed(outcome.ClassExpected, outcome.ReasonInitializing))},
		"Deleting": {reason: "cleanup must finish", rule: rule(notNow, expected, origin), xr: []fx.Mod{fx.Unsettled, fx.Deleting}, req: resize(),
			want: same(allowed(outcome.ClassExpected, outcome.ReasonParentDeleted))},
		"Self": {reason: "the provider works at any time", rule: rule(notNow, expected, origin), req: by(resize(), fx.Provider, "provider"),
			want: same(allowed(outcome.ClassSelf, outcome.ReasonSelf))},
		"Component": {reason: "and so does Kausality", rule: rule(notNow, expected, origin), req: by(resize(), fx.GateController, "kausality"),
			want: same(allowed("", outcome.ReasonComponent))},
		"NewOrigin": {reason: "a user's change of a child waits", rule: rule(notNow, origin), req: by(resize(), fx.Alice, "kubectl"),
			want: closed(outcome.ClassNewOrigin)},
		"OnlyExpected": {reason: "unless the rule is about others", rule: rule(notNow, expected), req: by(resize(), fx.Alice, "kubectl"),
			want: same(allowed(outcome.ClassNewOrigin, outcome.ReasonNewOrigin))},
		"NoParent": {reason: "an intent waits, too", rule: of(v1alpha1.ApprovalRuleMatch{Resources: all}, origin),
			req: by(byCrossplane(Update, fx.Composite(), fx.Set("l", "spec", "size")), fx.Alice, "kubectl"), want: closed(outcome.ClassNewOrigin)},
		"NoChange": {reason: "labels and annotations do not", rule: of(v1alpha1.ApprovalRuleMatch{Resources: all}, origin),
			req: by(byCrossplane(Update, fx.Composite(), fx.Annotate("a", "b")), fx.Alice, "kubectl"), want: same(allowed("", outcome.ReasonNoChange))},
	}
	for name, tc := range cases {
		for i, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				e := &Evaluator{World: setting{xr: tc.xr}.world(), Options: Options{DefaultMode: mode}, Policies: ruleSet(t, tc.rule)}
				d, err := e.Evaluate(t.Context(), tc.req)
				if err != nil {
					t.Fatal(err)
				}
				if got := outcomeOf(d); got != tc.want[i] {
					t.Fatalf("%s: want %+v, got %+v: %s", tc.reason, tc.want[i], got, d.Message)
				}
				if d.Report != nil {
					t.Errorf("%s: it is no drift: %+v", tc.reason, d.Report.Drift)
				}
				if d.Reason != outcome.ReasonWindowClosed {
					return
				}
				text := d.Message + strings.Join(d.Warnings, "")
				for _, want := range []string{"window opens Fri 18:00 UTC (ApprovalRule office)", "needs no approval"} {
					if !strings.Contains(text, want) {
						t.Errorf("%s: %q is missing from: %s", tc.reason, want, text)
					}
				}
			})
		}
	}
}

// TestRulesByNamespace covers KR-14-23: the labels of the Namespace select, where they can be read.
func TestRulesByNamespace(t *testing.T) {
	spec := v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "prod"}}},
		Require: []v1alpha1.RequiredVotes{{Count: 2}}}
	for name, tc := range map[string]struct {
		labels map[string]string
		lacks  bool
	}{
		"Selected": {labels: map[string]string{"stage": "prod"}, lacks: true},
		"Others":   {labels: map[string]string{"stage": "dev"}},
		"Unknown":  {lacks: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := setting{}.world()
			w.declared = map[string]settings.Namespace{"team": {Labels: tc.labels}}
			w.liveNamespaces = w.declared
			in := fx.With(fx.Instance(), fx.Set("team", "metadata", "namespace"))
			e := &Evaluator{World: w, Options: enforced(), Policies: ruleSet(t, spec)}
			for what, req := range map[string]*Request{"drift": byCrossplane(Update, in, fx.Resize("l")), "deletion": by(byCrossplane(Delete, in), fx.Alice, "")} {
				d, err := e.Evaluate(t.Context(), req)
				if err != nil || d.Allowed {
					t.Fatalf("%s: %v: %+v", what, err, outcomeOf(d))
				}
				if got := strings.Contains(d.Message, "0 of 2 approvals; needs 2 more (ApprovalRule office)"); got != tc.lacks {
					t.Errorf("%s: lacks votes: %t, want %t: %s", what, got, tc.lacks, d.Message)
				}
			}
		})
	}
}

// voted is the claim of a vote for a difference, which the object stores since generation 1.
func voted(t *testing.T, id, user, glass string) fx.Mod {
	t.Helper()
	stamp := metav1.NewTime(fx.Noon.Add(-time.Minute))
	return fx.Annotate(v1alpha1.AnnotationKeyClaims, annotation.MustMarshal([]v1alpha1.Claim{{Content: "c", State: v1alpha1.ClaimOpen, Generation: 9, At: stamp,
		Digest: id, Mode: v1alpha1.ApprovalOnce, Votes: true, By: []v1alpha1.Vote{{User: user, At: stamp, BreakGlass: glass}}}}))
}

// TestBreakGlassOutsideOfWindows covers KR-14-22: whom a rule names lets pass alone what waits for a window, on the parent or, without
// one, on the object itself; an approval that breaks no glass does not.
func TestBreakGlassOutsideOfWindows(t *testing.T) {
	spec := v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"*"}}}},
		AppliesTo: []v1alpha1.AppliesTo{v1alpha1.AppliesToExpected, v1alpha1.AppliesToNewOrigin}, Windows: at(notNow),
		BreakGlass: &v1alpha1.BreakGlass{Subjects: []v1alpha1.Subject{{Kind: v1alpha1.SubjectUser, Name: "olga"}}}}
	child := func(...fx.Mod) *Request { return byCrossplane(Update, fx.Instance(), fx.Resize("l")) }
	alone := func(mods ...fx.Mod) *Request {
		return by(byCrossplane(Update, fx.With(fx.Composite(), mods...), fx.Set("l", "spec", "size")), fx.Alice, "kubectl")
	}
	for name, tc := range map[string]struct {
		reason string
		make   func(mods ...fx.Mod) *Request
		user   string
		glass  string
		passes bool
		claims bool
	}{
		"Parent":        {reason: "on the parent", make: child, user: "olga", glass: "it burns", passes: true, claims: true},
		"ParentOther":   {reason: "of another user", make: child, user: "anna", glass: "it burns"},
		"ParentVote":    {reason: "an ordinary vote", make: child, user: "olga"},
		"NoParent":      {reason: "on the object", make: alone, user: "olga", glass: "it burns", passes: true},
		"NoParentOther": {reason: "of another user", make: alone, user: "anna", glass: "it burns"},
		"NoParentVote":  {reason: "an ordinary vote", make: alone, user: "olga"},
	} {
		t.Run(name, func(t *testing.T) {
			decided := func(id string) Decision {
				t.Helper()
				xr, req := []fx.Mod{fx.Unsettled}, tc.make()
				if id != "" {
					vote := voted(t, id, tc.user, tc.glass)
					xr, req = append(xr, vote), tc.make(vote)
				}
				e := &Evaluator{World: setting{xr: xr}.world(), Options: enforced(), Policies: ruleSet(t, spec)}
				d, err := e.Evaluate(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			d := decided("")
			if want := "In an emergency, for user olga: kubectl annotate"; d.Allowed || !strings.Contains(d.Message, want) ||
				!strings.Contains(d.Message, "approve-"+d.Digest.ID()+"='break-glass: REASON'") {
				t.Fatalf("%s: want %q in %q", tc.reason, want, d.Message)
			}
			d = decided(d.Digest.ID())
			if d.Allowed != tc.passes || (d.Claim != nil) != tc.claims {
				t.Fatalf("%s: got %+v, claim %v: %s", tc.reason, outcomeOf(d), d.Claim, d.Message)
			}
			if !tc.passes {
				return
			}
			own := d.Trace.Own()
			if own.Passed != v1alpha1.PassedBreakGlass || own.Unrequested || own.Approval == nil || own.Approval.By[0].BreakGlass != tc.glass {
				t.Errorf("%s: the hop does not show it: %s", tc.reason, d.Trace)
			}
		})
	}
}

// TestForgedBreakGlass covers KR-14-22: what a new object has is its author's, and no vote of the person that it names.
func TestForgedBreakGlass(t *testing.T) {
	spec := v1alpha1.ApprovalRuleSpec{Match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"*"}}}},
		AppliesTo: []v1alpha1.AppliesTo{v1alpha1.AppliesToNewOrigin}, Windows: at(notNow),
		BreakGlass: &v1alpha1.BreakGlass{Subjects: []v1alpha1.Subject{{Kind: v1alpha1.SubjectUser, Name: "olga"}}}}
	decide := func(mods ...fx.Mod) Decision {
		t.Helper()
		e := &Evaluator{World: setting{}.world(), Options: enforced(), Policies: ruleSet(t, spec)}
		d, err := e.Evaluate(t.Context(), by(byCrossplane(Create, fx.With(fx.Composite(), mods...)), fx.Alice, "kubectl"))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	honest := decide()
	if honest.Allowed || honest.Reason != outcome.ReasonWindowClosed || honest.Digest.ID() == "" {
		t.Fatalf("got %+v", honest)
	}
	if forged := decide(voted(t, honest.Digest.ID(), "olga", "it burns")); forged.Allowed || forged.Reason != outcome.ReasonWindowClosed {
		t.Errorf("a new object breaks the glass in another's name: %+v", forged)
	}
}
