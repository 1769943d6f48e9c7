package admission

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func destroying() *unstructured.Unstructured {
	return fx.With(fx.Terraform(nil), fx.Set(true, "spec", "destroyResourcesOnDeletion"))
}

func application(finalizers ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{"namespace": "argocd", "name": "shop", "uid": "app-uid", "generation": int64(90)}, "spec": map[string]any{}}}
	o.SetFinalizers(finalizers)
	return o
}

// A deletion that destroys what the object represents needs an approval, for any
// user; one that leaves it behind is decided as its author wrote (KR-08-42).
func TestDeleteForeign(t *testing.T) {
	approvals := func(verb string) fx.Mod {
		return fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","mode":"always","verbs":["`+verb+`"]}]`)
	}
	refuse, pass := refused("", outcome.ReasonExternalDeletion, 403), allowed(outcome.ClassNewOrigin, outcome.ReasonNoParent)
	cases := map[string]struct {
		reason string
		object *unstructured.Unstructured
		opts   Options
		want   wantedOutcome
	}{
		"Destroys": {reason: "it destroys without the approval of a plan", object: destroying(), opts: enforced(), want: refuse},
		"Leaves": {reason: "its author leaves the resources behind", object: fx.Terraform(nil), opts: enforced(),
			want: pass},
		"SaysNo": {reason: "explicitly",
			object: fx.With(fx.Terraform(nil), fx.Set(false, "spec", "destroyResourcesOnDeletion")), opts: enforced(), want: pass},
		"Deleting": {reason: "it is deleted already", object: fx.With(destroying(), fx.Deleting), opts: enforced(), want: allowed("", outcome.ReasonBeingDeleted)},
		"Approved": {reason: "by the system's verb", object: fx.With(destroying(), approvals("destroy")), opts: enforced(),
			want: pass},
		"ApprovedDelete": {reason: "or Crossplane's", object: fx.With(destroying(), approvals("Delete")), opts: enforced(),
			want: pass},
		"ApprovedAll": {reason: "or all", object: fx.With(destroying(), approvals("*")), opts: enforced(), want: pass},
		"ApprovedApply": {reason: "apply destroys nothing", object: fx.With(destroying(), approvals("apply")), opts: enforced(),
			want: refuse},
		"LogDestroys": {reason: "log mode warns", object: destroying(), opts: Options{}, want: pass},
		"Cascade": {reason: "Argo CD deletes what it deployed",
			object: application("resources-finalizer.argocd.argoproj.io"), opts: enforced(), want: refuse},
		"CascadeBackground": {reason: "in the background too",
			object: application("other", "resources-finalizer.argocd.argoproj.io/background"), opts: enforced(), want: refuse},
		"NoCascade":   {reason: "without the finalizer it stays", object: application("other"), opts: enforced(), want: pass},
		"NoFinalizer": {reason: "without any", object: application(), opts: enforced(), want: pass},
		"CascadeApproved": {reason: "by the system's verb",
			object: fx.With(application("resources-finalizer.argocd.argoproj.io"), approvals("delete")), opts: enforced(), want: pass},
		"CascadeSync": {reason: "sync deletes nothing",
			object: fx.With(application("resources-finalizer.argocd.argoproj.io"), approvals("sync")), opts: enforced(), want: refuse},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{}.world(), tc.opts, by(byCrossplane(Delete, tc.object), fx.Alice, ""))
			if got := outcomeOf(d); got != tc.want {
				t.Errorf("%s: want %+v, got %+v: %s", tc.reason, tc.want, got, d.Message)
			}
			if warned := strings.HasPrefix(name, "Log"); warned != (len(d.Warnings) > 0) || (warned || !d.Allowed) != (d.Report != nil) {
				t.Errorf("%s: warnings %v, report %v", tc.reason, d.Warnings, d.Report)
			}
		})
	}
}

// TestDeleteForeignVotes covers KR-14-12: the message and the report of a deletion that an ApprovalRule is about have who voted, and what is missing.
func TestDeleteForeignVotes(t *testing.T) {
	for _, o := range []*unstructured.Unstructured{destroying(), application("resources-finalizer.argocd.argoproj.io")} {
		rule, errs := allowance.CompileRule(&v1alpha1.ApprovalRule{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: v1alpha1.ApprovalRuleSpec{
			Match:   v1alpha1.ApprovalRuleMatch{Relations: []v1alpha1.Relation{v1alpha1.RelationExternal}, Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}},
			Require: []v1alpha1.RequiredVotes{{Count: 2}}}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		ruled := func() Decision {
			e := stubs{Options: enforced()}.of(setting{}.world())
			e.Policies = allowance.NewSet(nil, nil, nil).WithRules([]*allowance.Rule{rule})
			d, err := e.Evaluate(t.Context(), by(byCrossplane(Delete, o), fx.Alice, ""))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		first := ruled()
		const none = "0 of 2 approvals; needs 2 more (ApprovalRule two)"
		if first.Allowed || !strings.Contains(first.Message, none) || first.Report == nil || first.Report.Lacks != none || first.Lacks != none ||
			len(first.Needs) != 1 {
			t.Fatalf("%s: %+v", o.GetKind(), first)
		}
		voted := func(users ...string) {
			c := v1alpha1.Claim{Content: "c", State: v1alpha1.ClaimOpen, Digest: first.Digest.ID(), Mode: v1alpha1.ApprovalOnce, Votes: true, Generation: 99}
			for _, u := range users {
				c.By = append(c.By, v1alpha1.Vote{User: u, At: metav1.NewTime(fx.Noon)})
			}
			fx.Annotate(v1alpha1.AnnotationKeyClaims, approval.Claims{c}.String())(o)
		}
		voted("anna")
		second := ruled()
		if second.Allowed || second.Report == nil || !strings.HasPrefix(second.Report.Lacks, "1 of 2 approvals (anna)") || len(second.Report.Votes) != 1 {
			t.Errorf("%s: one vote of two: %+v, %+v", o.GetKind(), second, second.Report)
		}
		voted("anna", "bob")
		if third := ruled(); !third.Allowed || third.Claim == nil {
			t.Errorf("%s: two votes of two: %+v", o.GetKind(), third)
		}
	}
}

// What the message suggests lets exactly this deletion pass, once. An attempt that was not stored is tried again, whatever was written to the
// object meanwhile (KR-05-36).
func TestDeleteForeignSuggested(t *testing.T) {
	for _, o := range []*unstructured.Unstructured{destroying(), application("resources-finalizer.argocd.argoproj.io")} {
		refusal := decide(t, setting{}.world(), enforced(), by(byCrossplane(Delete, o), fx.Alice, ""))
		if refusal.Report == nil || refusal.Report.Drift.Relation != v1alpha1.RelationExternal || !strings.Contains(refusal.Message, refusal.Suggestion) ||
			!strings.Contains(refusal.Message, "to leave it behind, first: kubectl patch") {
			t.Fatalf("%+v", refusal)
		}
		fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+refusal.Digest.ID(), "once")(o)
		d := decide(t, setting{}.world(), enforced(), by(byCrossplane(Delete, o), fx.Alice, ""))
		if !d.Allowed || d.Claim == nil {
			t.Errorf("%s: %+v", o.GetKind(), d)
		}
		tried := fx.With(o, fx.Annotate(v1alpha1.AnnotationKeyClaims, d.Claim.Value), fx.Set(o.GetGeneration()+1, "metadata", "generation"))
		if again := decide(t, setting{}.world(), enforced(), by(byCrossplane(Delete, tried), fx.Alice, "")); !again.Allowed || again.Claim != nil {
			t.Errorf("%s, tried again: %+v", o.GetKind(), again)
		}
		fx.Annotate(v1alpha1.AnnotationKeyClaims, strings.Replace(d.Claim.Value, `"pending"`, `"used"`, 1))(o)
		if again := decide(t, setting{}.world(), enforced(), by(byCrossplane(Delete, o), fx.Alice, "")); again.Allowed {
			t.Errorf("%s: used twice", o.GetKind())
		}
	}
}
