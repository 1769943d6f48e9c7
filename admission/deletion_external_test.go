package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// What the message suggests lets exactly this deletion pass, once.
func TestDeleteForeignSuggested(t *testing.T) {
	for _, o := range []*unstructured.Unstructured{destroying(), application("resources-finalizer.argocd.argoproj.io")} {
		refusal := decide(t, setting{}.world(), enforced(), by(byCrossplane(Delete, o), fx.Alice, ""))
		if refusal.Report == nil || refusal.Report.Drift.Relation != v1alpha1.RelationExternal || !strings.Contains(refusal.Message, refusal.Suggestion) ||
			!strings.Contains(refusal.Message, "To leave it behind, first: kubectl patch") {
			t.Fatalf("%+v", refusal)
		}
		fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+refusal.Digest.ID(), "once")(o)
		d := decide(t, setting{}.world(), enforced(), by(byCrossplane(Delete, o), fx.Alice, ""))
		if !d.Allowed || d.Claim == nil {
			t.Errorf("%s: %+v", o.GetKind(), d)
		}
		fx.Annotate(v1alpha1.AnnotationKeyClaims, strings.Replace(d.Claim.Value, `"pending"`, `"used"`, 1))(o)
		if again := decide(t, setting{}.world(), enforced(), by(byCrossplane(Delete, o), fx.Alice, "")); again.Allowed {
			t.Errorf("%s: used twice", o.GetKind())
		}
	}
}
