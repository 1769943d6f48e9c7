package authorize

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// CheckVerbs refuses new entries of annotation approvals with verbs that can have no effect on the
// objects that they name. It warns of verbs with an effect that depends on the kind (KR-08-51).
// Entries that are stored already stay as they are.
func CheckVerbs(written, was map[string]string, w *outcome.Warnings) *outcome.Refusal {
	stored := map[string]bool{}
	for _, e := range approval.Parse(was).Approvals {
		stored[e.Content] = true
	}
	var wrong []string
	i := -1
	for _, e := range approval.Parse(written).Approvals {
		if e.Key != v1alpha1.AnnotationKeyApprovals {
			continue
		}
		if i++; stored[e.Content] {
			continue
		}
		for j, v := range e.Verbs {
			why, certain := unfit(e.Approval, string(v))
			text := fmt.Sprintf("annotation %s[%d].verbs[%d]: %q: %s", e.Key, i, j, v, why)
			switch {
			case certain:
				wrong = append(wrong, text)
			case why != "":
				w.Add(text)
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonInvalidAnnotation, Why: strings.Join(wrong, "; "),
		Next: "Nothing was changed; fix the verbs and try again."}
}

// unfit returns why a verb of an approval has no effect, as verb.Target.Unfit.
func unfit(a v1alpha1.Approval, name string) (why string, certain bool) {
	switch {
	case a.Digest != "" && a.Kind == "":
		return "", false // the digest alone decides
	case a.Relation != v1alpha1.RelationExternal:
		return "verbs have an effect with relation External alone", false
	}
	t := verb.Target{Kind: a.Kind, AnyGroup: true, AnyKind: a.Kind == "" || a.Kind == "*"}
	if gv, err := schema.ParseGroupVersion(a.APIVersion); err == nil && a.APIVersion != "" && a.APIVersion != "*" {
		t.Group, t.AnyGroup = gv.Group, false
	}
	return t.Unfit(name)
}
