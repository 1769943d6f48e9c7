package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// lasts completes a sentence about how long an approval is valid.
var lasts = map[v1alpha1.ApprovalMode]string{
	v1alpha1.ApprovalOnce: "once", v1alpha1.ApprovalGeneration: "until the next intent on its parent", v1alpha1.ApprovalAlways: "until the approval is removed",
}

// inAdvance approves changes that are not reported yet, on the parent of each
// object, or on the object itself where it has none.
func (c *approveCommand) inAdvance(ctx context.Context) error {
	targets, err := c.selected(c.cmd, c.args, &c.selectOptions)
	if err != nil {
		return err
	}
	if c.digest != "" && len(targets) != 1 {
		return usageError{errors.New("--digest is the id of one difference; name one object")}
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	d := c.selectOptions.decision("Approve any change that their controllers make to %s (" + string(c.mode) + ")?")
	if len(c.external) > 0 {
		d.question = "Allow the gates of %s to open for " + listVerbs(c.external) + " (" + string(c.mode) + ")?"
	}
	d.list = lists.Map(targets, func(t target) annotationWrite { return c.advance(ctx, i, t) })
	return writer{c.session, &c.writeOptions}.decide(ctx, d)
}

// advance returns the approval in advance of one object.
func (c *approveCommand) advance(ctx context.Context, i *inspect.Inspector, t target) annotationWrite {
	holder, err := c.approvalHolder(ctx, i, t)
	if err != nil {
		return annotationWrite{on: t, err: err}
	}
	a := v1alpha1.Approval{
		APIVersion: t.GetAPIVersion(), Kind: t.GetKind(), Name: t.GetName(), Mode: c.mode, Digest: c.digest, Reason: c.reason,
		Expiry: c.expiry(c.view.now()),
	}
	next := "Any change that its controller makes to " + t.describe() + " is allowed, " + lasts[a.Mode] + "."
	if len(c.external) > 0 {
		a.Relation, a.Verbs = v1alpha1.RelationExternal, c.external
		next = fmt.Sprintf("The gate of %s may open for %s, %s.", t.describe(), listVerbs(a.Verbs), lasts[a.Mode])
	}
	return annotationWrite{
		on: holder, head: about(t, holder), key: v1alpha1.AnnotationKeyApprovals, edit: annotate.AddApproval(a),
		next: next + c.underRules(ctx, i, t, a), warn: c.obstacles,
	}
}

// underRules returns what ApprovalRules leave of an approval in advance, as a sentence after another; empty where none is about the object. Rules count
// votes for differences alone (KR-14-03).
func (c *approveCommand) underRules(ctx context.Context, i *inspect.Inspector, t target, a v1alpha1.Approval) string {
	relation := cmp.Or(a.Relation, v1alpha1.RelationControllerChild)
	rules, err := i.RulesAbout(ctx, t.Unstructured, relation)
	switch {
	case err != nil:
		return " It is not known whether ApprovalRules need more: " + err.Error() + ". The ClusterRole kausality-viewer grants that right."
	case len(rules) == 0:
		return ""
	case a.Digest != "":
		return " It is one vote of those that are needed where ApprovalRule " + strings.Join(rules, " or ") + " matches the change."
	}
	return " But it allows nothing that ApprovalRule " + strings.Join(rules, " or ") +
		" matches: such a change needs the votes for its id, as kubectl kausality pending lists it."
}
