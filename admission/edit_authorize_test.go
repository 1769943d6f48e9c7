package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// What lets the deletion of a managed resource orphan needs the verb approve, as
// annotation deletion does (KR-13-14).
func TestNarrowingNeedsTheVerb(t *testing.T) {
	orphan := fx.Set("Orphan", "spec", "deletionPolicy")
	author := func(value string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, value) }
	narrow := fx.Policies("Observe", "Create", "Update")
	cases := map[string]struct {
		reason string
		who    subject.User
		as     string
		child  []fx.Mod
		mods   []fx.Mod
		needs  string // the field that it is about; "" where no right is needed
	}{
		"Policies":       {reason: "without Delete", mods: []fx.Mod{narrow}, needs: "spec.managementPolicies"},
		"DeletionPolicy": {reason: "Orphan, with all policies", mods: []fx.Mod{orphan}, needs: "spec.deletionPolicy"},
		"AllPolicies": {reason: "which an Orphan overrides", child: []fx.Mod{orphan, author(`["Observe","Delete"]`)},
			mods: []fx.Mod{fx.Policies("*")}, needs: "spec.managementPolicies"},
		"FromPaused": {reason: "by way of [], with which a deletion waits", child: []fx.Mod{author(`[]`), fx.Policies()},
			mods: []fx.Mod{fx.Policies("Create")}, needs: "spec.managementPolicies"},
		"Terminating": {reason: "the provider would drop its finalizer", child: []fx.Mod{fx.Deleting, fx.Policies("Observe", "Delete")},
			mods: []fx.Mod{fx.Policies("Observe")}, needs: "spec.managementPolicies"},
		"SomeManager": {reason: "under a Composition's field manager", as: fx.ComposedManager, mods: []fx.Mod{narrow},
			needs: "spec.managementPolicies"},
		"Machine": {reason: "another controller", who: subject.User{Name: "system:serviceaccount:default:ci"},
			mods: []fx.Mod{narrow}, needs: "spec.managementPolicies"},
		"Composition": {reason: "the recorded controller of the parent", who: fx.Crossplane, as: fx.ComposedManager,
			mods: []fx.Mod{narrow}},
		"Pausing":  {reason: "a deletion waits", mods: []fx.Mod{fx.Policies()}},
		"Masked":   {reason: "a re-apply of the mask changes no policy", mods: []fx.Mod{fx.Resize("l")}},
		"Narrower": {reason: "Delete is still there", mods: []fx.Mod{fx.Policies("Observe", "Delete")}},
		"Wider": {reason: "more is no orphan", child: []fx.Mod{author(`["Observe","Create"]`)},
			mods: []fx.Mod{fx.Policies("*")}},
		"Orphaned": {reason: "it was one before", child: []fx.Mod{author(`["Observe","Create"]`)},
			mods: []fx.Mod{fx.Policies("Observe", "Update")}},
		"OrphanWithoutAll": {reason: "explicit policies override it", child: []fx.Mod{author(`["Observe","Delete"]`)},
			mods: []fx.Mod{orphan}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.who.Name == "" {
				tc.who = fx.Alice
			}
			asked, may := 0, false
			o := statusRights(nil, fx.Crossplane)
			o.mayApprove = func(context.Context, subject.User, parent.Ref) (bool, error) { asked++; return may, nil }
			req := by(byCrossplane(Update, fx.With(fx.Instance(), tc.child...), tc.mods...), tc.who, tc.as)
			w := setting{xr: []fx.Mod{fx.Unsettled}}.world()
			d := decide(t, w, o, req)
			if (asked > 0) != (tc.needs != "") || d.Allowed == (tc.needs != "") {
				t.Errorf("%s: allowed %t after %d reviews: %s", tc.reason, d.Allowed, asked, d.Message)
			}
			if tc.needs != "" && (d.Reason != outcome.ReasonApproverForbidden || !strings.Contains(d.Message, "changing "+tc.needs+" so that") ||
				!strings.Contains(d.Message, `verb "approve" on`)) {
				t.Errorf("%s: %s: %s", tc.reason, d.Reason, d.Message)
			}
			may = true
			if d := decide(t, w, o, req); !d.Allowed {
				t.Errorf("with the verb: %s", d.Message)
			}
			o.mayApprove = nil
			if d := decide(t, w, o, req); !d.Allowed {
				t.Errorf("without approver RBAC: %s", d.Message)
			}
		})
	}
}

// A permission that cannot be checked refuses nothing in mode log (KR-13-14), and a
// creation needs none.
// relabelCase is a change of labels under policies that select objects by them.
type relabelCase struct {
	reason string
	policy func(*v1alpha1.KausalitySpec)
	from   map[string]string
	to     map[string]string
	child  []fx.Mod
	who    subject.User
	as     string
	needs  string // what the message has; "" where no right is needed
}

// To leave a policy by a change of labels needs the verb approve, as annotation mode
// does (KR-13-46).
func TestRelabelingNeedsTheVerb(t *testing.T) {
	gold, tin := map[string]string{"tier": "gold"}, map[string]string{"tier": "tin"}
	selector := &metav1.LabelSelector{MatchLabels: gold}
	enforce := func(s *v1alpha1.KausalitySpec) { s.Mode, s.ObjectSelector = v1alpha1.ModeEnforce, selector }
	logs := func(s *v1alpha1.KausalitySpec) { s.Mode, s.ObjectSelector = v1alpha1.ModeLog, selector }
	others := func(s *v1alpha1.KausalitySpec) {
		s.ObjectSelector, s.OtherActors = selector, v1alpha1.OtherActorsRequireApproval
	}
	cases := map[string]relabelCase{
		"Changed":     {reason: "the policy selects it no more", policy: enforce, from: gold, to: tin, needs: "its mode is log"},
		"Removed":     {reason: "nor without labels", policy: enforce, from: gold, needs: "its mode is log"},
		"SomeManager": {reason: "a field manager shows nothing", policy: enforce, from: gold, as: fx.ComposedManager, needs: "its mode is log"},
		"OtherActors": {reason: "a weaker policy", policy: others, from: gold, to: tin, needs: "other actors need no approval"},
		"Unguarded": {reason: "the webhook is not called for it any more", policy: logs, from: gold,
			to: map[string]string{"unguarded": "true"}, needs: "are not reviewed any more"},
		"Composition": {reason: "the recorded controller of the parent", policy: enforce, from: gold, to: tin, who: fx.Crossplane, as: fx.ComposedManager},
		"Into":        {reason: "to come under a policy is stricter", policy: enforce, from: tin, to: gold},
		"Within":      {reason: "a label that selects nothing", policy: enforce, from: gold, to: map[string]string{"tier": "gold", "a": "b"}},
		"Log":         {reason: "from a policy that logs", policy: logs, from: gold, to: tin},
		"Own": {reason: "the object's own mode is more specific", policy: enforce, from: gold, to: tin,
			child: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyMode, "enforce")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { testRelabel(t, tc) })
	}
}

func testRelabel(t *testing.T, tc relabelCase) {
	if tc.who.Name == "" {
		tc.who = fx.Alice
	}
	asked, may := 0, false
	o := statusRights(nil, fx.Crossplane)
	o.settings, o.DefaultMode = under(tc.policy).settings, v1alpha1.ModeLog
	o.guarded = func(s *parent.State) bool { return s.Labels["unguarded"] == "" }
	o.mayApprove = func(context.Context, subject.User, parent.Ref) (bool, error) { asked++; return may, nil }
	child := append([]fx.Mod{func(o *unstructured.Unstructured) { o.SetLabels(tc.from) }}, tc.child...)
	req := by(byCrossplane(Update, fx.With(fx.Instance(), child...), func(o *unstructured.Unstructured) { o.SetLabels(tc.to) }), tc.who, tc.as)
	w := setting{xr: []fx.Mod{fx.Unsettled}}.world()
	d := decide(t, w, o, req)
	if d.Allowed == (tc.needs != "") || (asked > 0) != (tc.needs != "") || !strings.Contains(d.Message, tc.needs) {
		t.Errorf("%s: allowed %t after %d reviews: %s", tc.reason, d.Allowed, asked, d.Message)
	}
	may = true
	if d := decide(t, w, o, req); !d.Allowed {
		t.Errorf("with the verb: %s", d.Message)
	}
	o.mayApprove = nil
	if d := decide(t, w, o, req); !d.Allowed {
		t.Errorf("without approver RBAC: %s", d.Message)
	}
}

// An UpgradeAllowance selects by labels, too: to be selected by a change of them is an
// approval (KR-13-46).
func TestLabelsOfAnUpgrade(t *testing.T) {
	set := policySet(t, `{kind: UpgradeAllowance, metadata: {name: u}, spec: {serviceAccount: "`+fx.Crossplane.Name+`",
		selector: {matchLabels: {tier: tin}}, allow: [{kind: Instance, relation: Child, mutations: ["*"]}]}}`)
	may := false
	o := stubs{Options: enforced(), mayApprove: func(context.Context, subject.User, parent.Ref) (bool, error) { return may, nil }}
	labels := func(l map[string]string) fx.Mod { return func(o *unstructured.Unstructured) { o.SetLabels(l) } }
	allowed := func(from, to map[string]string) bool {
		e := o.of(setting{}.world())
		e.Policies = set
		d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, fx.With(fx.Instance(), labels(from)), labels(to)), fx.Alice, "kubectl"))
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed && !strings.Contains(d.Message, "UpgradeAllowance u applies to it") {
			t.Error(d.Message)
		}
		return d.Allowed
	}
	tin, gold := map[string]string{"tier": "tin"}, map[string]string{"tier": "gold"}
	if allowed(gold, tin) || !allowed(tin, gold) || !allowed(nil, gold) || allowed(nil, tin) {
		t.Error("a label that selects needs the verb, another does not")
	}
	if may = true; !allowed(gold, tin) {
		t.Error("with the verb")
	}
}

func TestNarrowingUnchecked(t *testing.T) {
	o := stubs{Options: Options{DefaultMode: v1alpha1.ModeLog}, mayApprove: func(context.Context, subject.User, parent.Ref) (bool, error) {
		return false, errors.New("down")
	}}
	req := by(byCrossplane(Update, fx.Unmasked(), fx.Policies("Observe")), fx.Alice, "kubectl")
	if d := decide(t, setting{}.world(), o, req); !d.Allowed || len(d.Warnings) == 0 {
		t.Errorf("mode log: allowed %t, %q: %s", d.Allowed, d.Warnings, d.Message)
	}
	o.DefaultMode = v1alpha1.ModeEnforce
	if d := decide(t, setting{}.world(), o, req); d.Allowed || d.Code != 500 {
		t.Errorf("mode enforce: allowed %t, %d", d.Allowed, d.Code)
	}
	if d := decide(t, setting{}.world(), o, by(byCrossplane(Create, fx.Unmasked(), fx.Policies("Observe")), fx.Alice, "kubectl")); !d.Allowed {
		t.Errorf("creation: %s", d.Message)
	}
}

// TestRightByRule covers KR-14-60: where an ApprovalRule is about an object, other ways than votes to let its changes pass need the right to
// approve without approver RBAC, too, and votes do not.
func TestRightByRule(t *testing.T) {
	label := fx.Set("gold", "metadata", "labels", "tier")
	resources := []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"Instance"}}}
	about := v1alpha1.ApprovalRuleMatch{Resources: resources, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}
	reject := func(reasons ...string) fx.Mod {
		var out []string
		for _, r := range reasons {
			out = append(out, `{"kind":"*","name":"*","reason":"`+r+`"}`)
		}
		return fx.Annotate(v1alpha1.AnnotationKeyRejections, "["+strings.Join(out, ",")+"]")
	}
	cases := map[string]struct {
		reason string
		of     *unstructured.Unstructured // the managed resource where nil
		mods   []fx.Mod
		match  v1alpha1.ApprovalRuleMatch
		to     v1alpha1.AppliesTo
		needs  bool
	}{
		"Mode":       {reason: "as mode log lets all pass", mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyMode, "log")}, match: about, needs: true},
		"Orphan":     {reason: "a deletion leaves it behind", mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan")}, match: about, needs: true},
		"Policies":   {reason: "as by its policies", mods: []fx.Mod{fx.Policies("Observe", "Create")}, match: about, needs: true},
		"Label":      {reason: "the rule would not be about it", mods: []fx.Mod{fx.Set("tin", "metadata", "labels", "tier")}, match: about, needs: true},
		"OtherLabel": {reason: "it still is", mods: []fx.Mod{fx.Set("x", "metadata", "labels", "other")}, match: about},
		"Vote":       {reason: "the rule counts it", mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+"0123456789abcdef", "once")}, match: about},
		"Snooze":     {reason: "nothing passes by it", mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeySnooze, "2026-01-03T00:00:00Z")}, match: about},
		"AnotherKind": {reason: "no rule is about it", mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyMode, "log")},
			match: v1alpha1.ApprovalRuleMatch{Resources: []v1alpha1.ApprovalRuleResource{{Group: "*", Kinds: []string{"Bucket"}}}}},
		"Windows": {reason: "a rule that requires no votes", mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyMode, "log")}, match: about,
			to: v1alpha1.AppliesToExpected},
		"Freeze": {reason: "holds more", of: fx.Composite(), mods: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")}, match: about},
		"Unfreeze": {reason: "holds less", of: fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")),
			mods: []fx.Mod{fx.Unannotate(v1alpha1.AnnotationKeyFreeze)}, match: about, needs: true},
		"Reject":   {reason: "one more", of: fx.With(fx.Composite(), reject("a")), mods: []fx.Mod{reject("a", "b")}, match: about},
		"Withdraw": {reason: "one less", of: fx.With(fx.Composite(), reject("a", "b")), mods: []fx.Mod{reject("b")}, match: about, needs: true},
		"WithdrawAll": {reason: "none left", of: fx.With(fx.Composite(), reject("a")), mods: []fx.Mod{fx.Unannotate(v1alpha1.AnnotationKeyRejections)},
			match: about, needs: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := tc.of
			if o == nil {
				o = fx.With(fx.Instance(), label)
			}
			spec := v1alpha1.ApprovalRuleSpec{Match: tc.match}
			if tc.to != "" {
				spec.AppliesTo, spec.Windows = []v1alpha1.AppliesTo{tc.to}, at(openNow)
			}
			for _, may := range []bool{false, true} {
				s := stubs{Options: enforced(), mayApproveAt: func(_ subject.User, subresource string) bool {
					return may && subresource == SubresourceApproval
				}}
				e := s.of(setting{}.world())
				e.Policies = ruleSet(t, spec)
				d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, o, tc.mods...), fx.Alice, "kubectl"))
				if err != nil || d.Allowed != (may || !tc.needs) || !d.Allowed && d.Reason != outcome.ReasonApproverForbidden {
					t.Errorf("%s, may %t: %v: %+v: %s", tc.reason, may, err, outcomeOf(d), d.Message)
				}
			}
		})
	}
}

// TestRightOnTheSubresource covers KR-02-13: on which resource the verb is required, by the value of --approver-rbac.
func TestRightOnTheSubresource(t *testing.T) {
	cases := map[string]struct {
		rbac                  ApproverRBAC
		subresource, resource bool // where the user has the verb
		allowed, warned       bool
	}{
		"Off":         {rbac: ApproverRBACOff, allowed: true},
		"Neither":     {rbac: ApproverRBACOn},
		"Subresource": {rbac: ApproverRBACOn, subresource: true, allowed: true},
		"Resource":    {rbac: ApproverRBACOn, resource: true},
		"EitherNone":  {rbac: ApproverRBACResource},
		"EitherSub":   {rbac: ApproverRBACResource, subresource: true, resource: true, allowed: true},
		"EitherOld":   {rbac: ApproverRBACResource, resource: true, allowed: true, warned: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := stubs{Options: enforced(), mayApproveAt: func(_ subject.User, subresource string) bool {
				return subresource == "" && tc.resource || subresource == SubresourceApproval && tc.subresource
			}}
			e := s.of(setting{}.world())
			e.Options.ApproverRBAC = tc.rbac
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Update, fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")), fx.Alice, "kubectl"))
			if err != nil || d.Allowed != tc.allowed {
				t.Errorf("%v: allowed %t: %s", err, d.Allowed, d.Message)
			}
			if warned := strings.Contains(strings.Join(d.Warnings, ""), "--approver-rbac=true"); warned != tc.warned {
				t.Errorf("warnings %q", d.Warnings)
			}
		})
	}
}
