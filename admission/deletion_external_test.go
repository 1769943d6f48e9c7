package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func destroying() *unstructured.Unstructured {
	return with(terraformObject(nil), set(true, "spec", "destroyResourcesOnDeletion"))
}

func application(finalizers ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{"namespace": "argocd", "name": "shop", "uid": "app-uid", "generation": int64(90)}, "spec": map[string]any{}}}
	o.SetFinalizers(finalizers)
	return o
}

// Deleting what takes along all that it stands for needs an approval, whoever
// asks; deleting what leaves it behind does as its author wrote (KR-08-42).
func TestDeleteForeign(t *testing.T) {
	approvals := func(verb string) mod {
		return annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"*","name":"*","relation":"External","mode":"always","verbs":["`+verb+`"]}]`)
	}
	refuse, pass := refused("", ReasonExternalDeletion, 403), allowed(ClassNewOrigin, ReasonNoParent)
	cases := map[string]struct {
		reason string
		object *unstructured.Unstructured
		opts   Options
		want   outcome
	}{
		"Destroys":          {"it destroys without asking for a plan", destroying(), enforced(), refuse},
		"Leaves":            {"its author leaves the resources behind", terraformObject(nil), enforced(), pass},
		"SaysNo":            {"and says so", with(terraformObject(nil), set(false, "spec", "destroyResourcesOnDeletion")), enforced(), pass},
		"Deleting":          {"it is deleted already", with(destroying(), deleting), enforced(), pass},
		"Approved":          {"by the system's verb", with(destroying(), approvals("destroy")), enforced(), pass},
		"ApprovedDelete":    {"or Crossplane's", with(destroying(), approvals("Delete")), enforced(), pass},
		"ApprovedAll":       {"or all", with(destroying(), approvals("*")), enforced(), pass},
		"ApprovedApply":     {"apply destroys nothing", with(destroying(), approvals("apply")), enforced(), refuse},
		"LogDestroys":       {"log mode warns", destroying(), Options{}, pass},
		"Cascade":           {"Argo CD deletes what it deployed", application("resources-finalizer.argocd.argoproj.io"), enforced(), refuse},
		"CascadeBackground": {"in the background too", application("other", "resources-finalizer.argocd.argoproj.io/background"), enforced(), refuse},
		"NoCascade":         {"without the finalizer it stays", application("other"), enforced(), pass},
		"NoFinalizer":       {"without any", application(), enforced(), pass},
		"CascadeApproved":   {"by the system's verb", with(application("resources-finalizer.argocd.argoproj.io"), approvals("delete")), enforced(), pass},
		"CascadeSync":       {"sync deletes nothing", with(application("resources-finalizer.argocd.argoproj.io"), approvals("sync")), enforced(), refuse},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{}.world(), tc.opts, request(Delete, tc.object).by(alice, ""))
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
		refusal := decide(t, setting{}.world(), enforced(), request(Delete, o).by(alice, ""))
		if refusal.Report == nil || refusal.Report.Drift.Relation != v1alpha1.RelationExternal || !strings.Contains(refusal.Message, refusal.Suggestion) ||
			!strings.Contains(refusal.Message, "To leave it behind, first: kubectl patch") {
			t.Fatalf("%+v", refusal)
		}
		annotate(v1alpha1.AnnotationKeyApprovePrefix+refusal.ID, "once")(o)
		d := decide(t, setting{}.world(), enforced(), request(Delete, o).by(alice, ""))
		if !d.Allowed || d.Claim == nil {
			t.Errorf("%s: %+v", o.GetKind(), d)
		}
		annotate(v1alpha1.AnnotationKeyClaims, strings.Replace(d.Claim.Value, `"pending"`, `"used"`, 1))(o)
		if again := decide(t, setting{}.world(), enforced(), request(Delete, o).by(alice, "")); again.Allowed {
			t.Errorf("%s: used twice", o.GetKind())
		}
	}
}
