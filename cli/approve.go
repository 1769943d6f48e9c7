package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/choice"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// approveCommand approves differences that were reported, or changes in advance.
type approveCommand struct {
	*session
	arguments
	writeOptions
	waitOptions
	changeOptions
	voteOptions
	mode     v1alpha1.ApprovalMode
	digest   string
	reason   string
	any      bool
	external []v1alpha1.Verb
}

// newApproveCommand returns `kubectl kausality approve`: it writes the annotation
// approve-<id>, or an entry of approvals with --any, on the holder of approvals.
func newApproveCommand(s *session) *cobra.Command {
	c := &approveCommand{session: s}
	cmd := &cobra.Command{
		Use: "approve ID... | TYPE/NAME... | TYPE -l LABELS | --cause KEY | -l LABELS | --all", Short: "Approve pending changes.",
		Long: "Approves differences that were reported: one by its id, or all that are pending about an object. An approval is for " +
			"exactly the difference that is listed. --all and --selector leave out changes of external resources, which are approved by their " +
			"ids, objects or --cause. With --any, any change that its controller makes to an object is approved in advance.",
		Example: `  # A change that kubectl kausality pending lists; wait until it was carried out
  kubectl kausality approve 7642947475a29290 --wait

  # All pending changes below one object, after confirmation
  kubectl kausality approve xdatabase/orders

  # All pending changes below the objects of one team, after confirmation
  kubectl kausality approve xdatabases -l team=shop

  # What one cause holds in all namespaces: ten objects first, then the rest
  kubectl kausality approve -A --cause xdatabases-7f3 --limit 10 --reason "SHOP-17: canary"
  kubectl kausality approve -A --cause xdatabases-7f3 --reason "SHOP-17"

  # Alone, outside of windows, as one of the users whom the ApprovalRules name for it
  kubectl kausality approve 7642947475a29290 --break-glass "INC-4711: the disk is full"

  # It counts for two hours; and not at all any more
  kubectl kausality approve 7642947475a29290 --for 2h
  kubectl kausality withdraw 7642947475a29290

  # Allow the controller any change of this database, until the spec of its parent is changed
  kubectl kausality approve database/orders-da6cb79af0ff --any --mode generation

  # Allow the external resource to be deleted
  kubectl kausality approve database/orders-da6cb79af0ff --any --external Delete`,
		ValidArgsFunction: completer{s}.ids,
		RunE:              runs(c),
	}
	c.writeOptions.add(cmd)
	c.changeOptions.add(cmd, "All pending changes of the namespace but those of external resources.")
	c.waitOptions.add(cmd, "Wait until what is approved was carried out.")
	fl := cmd.Flags()
	c.voteOptions.add(fl)
	mode := choice.One(&c.mode, v1alpha1.ApprovalOnce,
		v1alpha1.ApprovalOnce, v1alpha1.ApprovalGeneration+" (until the next intent on the parent)", v1alpha1.ApprovalAlways)
	fl.Var(mode, "mode", mode.List()+".")
	fl.VarP((*sentences)(&c.reason), "reason", "m", "Reason, for other users; kubectl kausality trace shows it beside the change.")
	fl.StringVar(&c.digest, "digest", "", "Approve the difference with this id of the object named, whether it is reported or not.")
	fl.BoolVar(&c.any, "any", false, "Approve any change that their controllers make to the objects named.")
	external := choice.Some(&c.external, externalVerbs()...)
	fl.Var(external, "external",
		"With --any or --digest: approve these verbs of the external resource instead: "+external.List()+"; several are separated by commas.")
	return cmd
}

// externalVerbs returns the verbs of all systems, with the system of those that have an effect in one alone (KR-06-11).
func externalVerbs() (out []v1alpha1.Verb) {
	for _, v := range verb.Any.Verbs() {
		for _, s := range []verb.System{verb.Terraform, verb.ArgoCD} {
			if verb.Crossplane.Means(v) == nil && s.Means(v) != nil {
				v += " (" + string(s) + ")"
			}
		}
		out = append(out, v1alpha1.Verb(v))
	}
	return out
}

// validate validates the flags, and those that exclude each other.
func (c *approveCommand) validate() error {
	if err := errors.Join(c.checkSelection(), c.voteOptions.check(c)); err != nil {
		return err
	}
	switch {
	case len(c.reason) > v1alpha1.MaxCauseName:
		return usageError{fmt.Errorf("--reason must have at most %d bytes", v1alpha1.MaxCauseName)}
	case c.any || c.digest != "":
		return validateInAdvance(c)
	case len(c.external) > 0:
		return usageError{errors.New("--external needs --any or --digest")}
	}
	return nil
}

// validateInAdvance validates the flags of an approval of what is not reported yet.
func validateInAdvance(c *approveCommand) error {
	switch {
	case c.cause != "":
		return usageError{errors.New("--cause selects differences that are reported; it does not go with --any or --digest")}
	case c.digest != "" && !change.IsID(c.digest):
		return usageError{fmt.Errorf("--digest must be the id of a difference, 16 hexadecimal digits, not %q", c.digest)}
	case c.digest != "" && c.any:
		return usageError{errors.New("--digest and --any exclude each other; give one")}
	case c.all || slices.ContainsFunc(c.args, change.IsID):
		return usageError{errors.New("--any and --digest need objects, named as TYPE/NAME or with --selector")}
	case c.wait:
		return usageError{errors.New("--wait needs differences that are reported; it does not go with --any or --digest")}
	}
	return nil
}

// run approves what is selected and waits for it with --wait. A dry run approves
// nothing that could be waited for.
func (c *approveCommand) run(ctx context.Context) error {
	if c.any || c.digest != "" {
		return c.inAdvance(ctx)
	}
	list, group, err := c.differences(ctx)
	if err != nil {
		return err
	}
	d := decision{question: c.question(c.mode), noun: "change", differences: true, limit: c.limit}
	if group {
		d.selection = asGroup
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	for n := range list {
		w := c.drift(i, &list[n])
		if c.withdraw && w.err == nil {
			d.list = append(d.list, c.withdrawn(ctx, i, w)...)
			continue
		}
		d.list = append(d.list, w)
	}
	done, err := writer{c.session, &c.writeOptions}.decided(ctx, d)
	if err != nil || !c.wait || c.dryRun != dryNone {
		return err
	}
	return c.awaitAll(ctx, done)
}

// drift is approved on the parent that it names.
func (c *approveCommand) drift(i *inspect.Inspector, d *v1alpha1.Drift) annotationWrite {
	t, err := c.target(identity.Ref(d.Spec.Parent))
	if err != nil {
		return annotationWrite{head: d.Name + "  " + channel.Summary(d), err: err}
	}
	if d.Spec.SuggestedApproval == "" {
		return annotationWrite{on: t, head: d.Name + "  " + channel.Summary(d), err: errUnguarded(channel.Describe(d.Spec.Parent))}
	}
	w := annotationWrite{on: t, head: d.Name + "  " + channel.Summary(d), next: c.afterApproval(d), warn: c.obstacles, drift: d}
	w.judge = c.cast(i, d, t, w.next)
	w.key, w.edit = c.vote(i.User.Name, d.Spec.ID, c.mode, c.reason, c.view.now())
	if !c.withdraw {
		w.edit = channel.UnlessCarried(d, w.key, w.edit)
	}
	return w
}

// obstacles returns what is on a parent and takes precedence over any approval (KR-05-06). A rejection of what is approved is reported with the approval.
func (s *session) obstacles(ctx context.Context, t target) ([]string, error) {
	u, err := t.client.Get(ctx, t.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", t.describe(), err)
	}
	set := approval.ParseAt(u.GetAnnotations(), s.view.now())
	out := set.Warnings
	if f := set.Freeze; f != nil {
		out = append(out, t.describe()+" is frozen"+attribution(f.User, f.Message, f.At)+"; every change is refused until it is unfrozen")
	}
	return out, nil
}

// afterApproval describes what happens next.
func (c *approveCommand) afterApproval(d *v1alpha1.Drift) string {
	deletion := d.Spec.Operation == string(admission.Delete)
	switch {
	case d.Spec.Relation == v1alpha1.RelationExternal && deletion:
		t, err := c.target(identity.Ref(d.Spec.Child))
		if err != nil {
			return "The gate opens for Delete; then delete it again."
		}
		return "The gate opens for Delete; then delete it again: kubectl delete " + strings.Replace(t.arg(), "/", " ", 1)
	case d.Spec.Relation == v1alpha1.RelationExternal:
		return "The gate opens for exactly this change, and closes when the provider has confirmed it."
	}
	return "Its controller carries it out when it next reconciles " + channel.Describe(d.Spec.Parent) + "."
}
