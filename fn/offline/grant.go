package offline

import (
	"cmp"
	"context"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/allowance/expression"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Grant grants the composite the allowances of its last intent, as an annotation of its State. The
// policies are those of its kind that no webhook grants from: known select the fields that are
// remembered, granting are those that the intent's user may use. content is the composite as it is,
// which is not modified. It returns the value of v1alpha1.AnnotationKeySettledFields from now on, "" for
// none, and notes for users.
func (c *Composite) Grant(
	ctx context.Context, known, granting []*allowance.Compiled, content map[string]any, observed []*Resource,
) (remember string, notes []string) {
	if len(known) == 0 {
		return "", nil
	}
	back := c.lookBack(content, observed, known)
	if back.settled {
		return back.annotation(), nil // its allowances are consumed
	}
	s, user := c.State, cmp.Or(c.Intent.User, external.Unattributed)
	groups, _ := allowance.GroupsOf(c.Intent.User)
	granted, notes := allowance.Grant(ctx, granting, allowance.Intent{
		Kind: s.GroupKind(), Name: s.Name, Generation: c.Intent.Generation, User: user, Groups: groups,
		Details: back.details(), Content: content, Secrets: c.Secrets,
		Input: &expression.Input{Object: content, OldObject: back.object(s), Parent: identified(s.Parent), Request: map[string]any{
			"user": user, "groups": groups, "operation": string(admission.Update),
		}},
	})
	have, err := allowance.Parse(s.Annotations[v1alpha1.AnnotationKeyAllowances])
	if err != nil {
		notes = append(notes, err.Error())
	}
	if all := have.With(granted...); len(all) > 0 {
		c.Annotate(v1alpha1.AnnotationKeyAllowances, all.String())
	}
	return back.annotation(), notes
}
