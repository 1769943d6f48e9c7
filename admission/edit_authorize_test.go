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
