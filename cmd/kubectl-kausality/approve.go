package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/inspect"
	"github.com/kausality-io/function-kausality/people"
)

type approveOptions struct {
	decisionOptions
	waitOptions
	mode, digest string
	any, all     bool
	external     []string
	yes          bool
}

func (c *cli) approveCommand() *cobra.Command {
	o := &approveOptions{}
	cmd := &cobra.Command{
		Use: "approve ID... | TYPE/NAME...", Short: "Approve what waits.",
		Long: "Approves differences that were reported: one by its id, or all that stand about an object. What was shown is what " +
			"happens: an approval is for exactly that difference. With --any, whatever its controller changes of an object is " +
			"approved in advance.",
		Example: `  # What kubectl kausality pending lists, and wait until it went through
  kubectl kausality approve 7642947475a29290 --wait

  # All that waits below one object; you are asked
  kubectl kausality approve xdatabase/orders

  # Let the controller do with this database what it likes, until somebody changes the spec of its parent
  kubectl kausality approve database/orders-da6cb79af0ff --any --mode generation

  # Let the external resource be deleted
  kubectl kausality approve database/orders-da6cb79af0ff --any --external Delete`,
		ValidArgsFunction: c.completeIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.approve(cmd, args, o) },
	}
	o.decisionOptions.add(cmd)
	o.waitOptions.add(cmd, "Wait until what is approved went through.")
	fl := cmd.Flags()
	fl.StringVar(&o.mode, "mode", string(v1alpha1.ApprovalOnce), "once, generation (until the next intent on the parent) or always.")
	fl.StringVar(&o.digest, "digest", "", "Approve the difference with this id of the object named, whether it is reported or not.")
	fl.BoolVar(&o.any, "any", false, "Approve whatever its controller changes of the objects named.")
	fl.StringSliceVar(&o.external, "external", nil, "With --any: approve these verbs of the external resource instead: Create, Update, Delete or *.")
	fl.BoolVar(&o.all, "all", false, "Approve all that waits in the namespace.")
	fl.BoolVarP(&o.yes, "yes", "y", false, "Do not ask.")
	return cmd
}

func (o *approveOptions) check() error {
	if err := o.decisionOptions.check(); err != nil {
		return err
	}
	switch v1alpha1.ApprovalMode(o.mode) {
	case v1alpha1.ApprovalOnce, v1alpha1.ApprovalGeneration, v1alpha1.ApprovalAlways:
	default:
		return usageError{fmt.Errorf("--mode must be once, generation or always, not %q", o.mode)}
	}
	switch {
	case o.digest != "" && !isID(o.digest):
		return usageError{fmt.Errorf("--digest must be the id of a difference, 16 hexadecimal digits, not %q", o.digest)}
	case o.digest != "" && o.any:
		return usageError{errors.New("--digest and --any say different things; give one")}
	case len(o.external) > 0 && !o.any && o.digest == "":
		return usageError{errors.New("--external needs --any or --digest")}
	case o.wait && (o.any || o.digest != ""):
		return usageError{errors.New("--wait needs differences that are reported; it does not go with --any or --digest")}
	}
	for _, v := range o.external {
		if !slices.Contains([]string{"Create", "Update", "Delete", "*"}, v) {
			return usageError{fmt.Errorf("--external must be Create, Update, Delete or *, not %q", v)}
		}
	}
	return nil
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// isID reports whether an argument is the id of a difference.
func isID(s string) bool { return idPattern.MatchString(s) }

func (c *cli) approve(cmd *cobra.Command, args []string, o *approveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.any || o.digest != "" {
		return c.approveInAdvance(cmd, args, o)
	}
	list, group, err := c.meant(cmd, args, o.all)
	if err != nil {
		return err
	}
	if group && o.dryRun != string(people.DryRunClient) {
		for i := range list {
			fmt.Fprintf(c.ErrOut, "  %s  %s\n", list[i].Name, summary(&list[i]))
		}
		question := fmt.Sprintf("Approve these %d changes (%s)?", len(list), o.mode)
		if len(list) == 1 {
			question = fmt.Sprintf("Approve this change (%s)?", o.mode)
		}
		if err := c.confirm(question, o.yes); err != nil {
			return err
		}
	}
	var done []written
	var failed error
	for i := range list {
		w, err := c.approveDrift(cmd.Context(), &list[i], o)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		done = append(done, w)
	}
	if err := c.report(&o.decisionOptions, done, failed); err != nil || !o.wait || o.dryRun != "none" {
		return err
	}
	return c.awaitAll(cmd, list, o)
}

// meant Drifts: by their ids, all of the namespace, or those that stand about
// objects. group is true where it was not the person who named each.
func (c *cli) meant(cmd *cobra.Command, args []string, all bool) (list []v1alpha1.Drift, group bool, err error) {
	switch {
	case all && len(args) > 0:
		return nil, false, usageError{errors.New("--all names everything; give no arguments with it")}
	case all:
		list, where, err := c.open(cmd, nil, false)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("nothing waits for approval %s", where)
		}
		return list, true, err
	case onlyIDs(args):
		list, err = c.identified(cmd, args)
		return list, false, err
	case slices.ContainsFunc(args, isID):
		return nil, false, usageError{errors.New("give ids or objects, not both")}
	}
	list, err = c.about(cmd, args)
	return list, true, err
}

func onlyIDs(args []string) bool {
	return len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool { return !isID(a) })
}

// identified by their ids, and open.
func (c *cli) identified(cmd *cobra.Command, ids []string) ([]v1alpha1.Drift, error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	list := make([]v1alpha1.Drift, 0, len(ids))
	for _, id := range ids {
		d, err := c.find(cmd.Context(), client, ns, id)
		if err != nil {
			return nil, err
		}
		if !inspect.Open(d) {
			return nil, fmt.Errorf("drift %s is resolved: %s; there is nothing to approve", id, d.Status.Resolution)
		}
		list = append(list, *d)
	}
	return list, nil
}

// about objects, each difference once; something of each must stand.
func (c *cli) about(cmd *cobra.Command, args []string) ([]v1alpha1.Drift, error) {
	targets, err := c.objects(cmd, args)
	if err != nil {
		return nil, err
	}
	var list []v1alpha1.Drift
	for _, t := range targets {
		open, err := c.openAbout(cmd, t)
		if err != nil {
			return nil, err
		}
		if len(open) == 0 {
			return nil, fmt.Errorf("nothing waits for approval about %s; to approve whatever comes, give --any", t.describe())
		}
		for _, d := range open {
			if !slices.ContainsFunc(list, func(have v1alpha1.Drift) bool { return have.Name == d.Name && have.Namespace == d.Namespace }) {
				list = append(list, d)
			}
		}
	}
	return list, nil
}

// find what has an id: a Drift, or what the function holds back.
func (c *cli) find(ctx context.Context, client dynamic.Interface, ns, id string) (*v1alpha1.Drift, error) {
	d, notFound := inspect.Find(ctx, client, ns, id)
	if notFound == nil && inspect.Open(d) {
		return d, nil
	}
	mapper, err := c.mapper()
	if err != nil {
		return nil, err
	}
	held, err := inspect.Held(ctx, client, mapper, ns)
	if err != nil {
		return nil, errors.Join(notFound, err)
	}
	for i := range held {
		if held[i].Name == id {
			return &held[i], nil
		}
	}
	return d, notFound
}

// approveDrift on the parent that the Drift names.
func (c *cli) approveDrift(ctx context.Context, d *v1alpha1.Drift, o *approveOptions) (written, error) {
	t, err := c.target(refOf(d.Spec.Parent))
	if err != nil {
		return written{}, err
	}
	w, err := c.write(ctx, t, &o.decisionOptions, people.ApproveKey(d.Spec.ID), people.Approve(d.Spec.ID, v1alpha1.ApprovalMode(o.mode)))
	if err != nil {
		return written{}, err
	}
	w.Next = c.afterApproval(d)
	w.Warnings, err = c.obstacles(ctx, t)
	return w, err
}

// obstacles on a parent that go before any approval.
func (c *cli) obstacles(ctx context.Context, t target) ([]string, error) {
	u, err := t.client.Get(ctx, t.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", t.describe(), err)
	}
	set := approval.Parse(u.GetAnnotations())
	out := set.Warnings
	if f := set.Freeze; f != nil {
		out = append(out, t.describe()+" is frozen"+said(f.User, f.Message, f.At.UTC)+"; nothing passes until it is unfrozen")
	}
	if len(set.Rejections) > 0 {
		out = append(out, t.describe()+" has rejections, and one that fits goes before any approval")
	}
	return out, nil
}

// afterApproval says what happens now.
func (c *cli) afterApproval(d *v1alpha1.Drift) string {
	deletion := d.Spec.Operation == string(admission.Delete)
	switch {
	case d.Spec.Relation == v1alpha1.RelationExternal && deletion:
		t, err := c.target(refOf(d.Spec.Child))
		if err != nil {
			return "The gate opens for Delete; then delete it again."
		}
		return "The gate opens for Delete; then delete it again: kubectl delete " + strings.Replace(t.arg(), "/", " ", 1)
	case d.Spec.Relation == v1alpha1.RelationExternal:
		return "The gate opens for exactly this, and closes when the provider has confirmed it."
	}
	return "Its controller carries it out when it next reconciles " + describeRef(d.Spec.Parent) + "."
}

// lasts says how long an approval does.
var lasts = map[v1alpha1.ApprovalMode]string{
	v1alpha1.ApprovalOnce: "once", v1alpha1.ApprovalGeneration: "until the next intent on its parent", v1alpha1.ApprovalAlways: "until the approval is removed",
}

// approveInAdvance on the parent of each object, or on the object itself where
// it has none.
func (c *cli) approveInAdvance(cmd *cobra.Command, args []string, o *approveOptions) error {
	if o.all || slices.ContainsFunc(args, isID) {
		return usageError{errors.New("--any and --digest need objects, named as TYPE/NAME")}
	}
	targets, err := c.objects(cmd, args)
	if err != nil {
		return err
	}
	if o.digest != "" && len(targets) != 1 {
		return usageError{errors.New("--digest is the id of one difference; name one object")}
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	return c.each(&o.decisionOptions, targets, func(t target) (written, error) {
		holder, err := c.holder(cmd.Context(), i, t)
		if err != nil {
			return written{}, err
		}
		a := v1alpha1.Approval{APIVersion: t.GetAPIVersion(), Kind: t.GetKind(), Name: t.GetName(), Mode: v1alpha1.ApprovalMode(o.mode), Digest: o.digest}
		next := "What its controller changes of " + t.describe() + " passes, " + lasts[a.Mode] + "."
		if len(o.external) > 0 {
			a.Relation = v1alpha1.RelationExternal
			for _, v := range o.external {
				a.Verbs = append(a.Verbs, v1alpha1.Verb(v))
			}
			next = fmt.Sprintf("The gate of %s may open for %s, %s.", t.describe(), verbs(a.Verbs), lasts[a.Mode])
		}
		w, err := c.write(cmd.Context(), holder, &o.decisionOptions, v1alpha1.AnnotationKeyApprovals, people.AddApproval(a))
		if err != nil {
			return written{}, err
		}
		w.Next = next
		w.Warnings, err = c.obstacles(cmd.Context(), holder)
		return w, err
	})
}

// holder of approvals and rejections about an object: its parent, else itself if
// it is a managed resource.
func (c *cli) holder(ctx context.Context, i *inspect.Inspector, t target) (target, error) {
	if err := i.Direct.Learn(ctx, t.GroupVersionKind()); err != nil {
		return target{}, err
	}
	s := i.Direct.Sum(t.Unstructured)
	switch {
	case s.Parent.Name != "":
		up, err := i.Direct.States.Get(ctx, s.Parent, true)
		if errors.Is(err, admission.ErrNotFound) {
			return target{}, fmt.Errorf("the parent of %s, %s, does not exist", t.describe(), admission.Describe(s.Parent))
		}
		if err != nil {
			return target{}, fmt.Errorf("cannot read %s: %w", admission.Describe(s.Parent), err)
		}
		return c.target(up.State.Ref)
	case s.Role == parent.RoleManaged:
		return t, nil
	}
	return target{}, fmt.Errorf("%s has no controlling parent: no controller is held back from changing it", t.describe())
}

// awaitAll that was approved: each Drift is resolved, or its deletion would
// pass.
func (c *cli) awaitAll(cmd *cobra.Command, list []v1alpha1.Drift, o *approveOptions) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	for n := range list {
		d := &list[n]
		how := ""
		err := o.until(cmd.Context(), func(ctx context.Context) (waiting string, err error) {
			if d.Spec.Relation == v1alpha1.RelationExternal && d.Spec.Operation == string(admission.Delete) {
				how, waiting, err = c.deletable(ctx, d)
				return waiting, err
			}
			how, waiting, err = c.resolved(ctx, client, d)
			return waiting, err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOut, "%s %s: %s\n", c.paint.green("done"), d.Name, how)
	}
	return nil
}

// resolved reports whether a Drift is, or what was held is not any more.
func (c *cli) resolved(ctx context.Context, client dynamic.Interface, d *v1alpha1.Drift) (how, waiting string, err error) {
	stands := "drift " + d.Name + " still stands: " + summary(d)
	if inspect.IsHeld(d) {
		t, err := c.target(refOf(d.Spec.Parent))
		if err != nil {
			return "", "", err
		}
		u, err := t.client.Get(ctx, t.GetName(), metav1.GetOptions{})
		if err != nil {
			return "", "", fmt.Errorf("cannot read %s: %w", t.describe(), err)
		}
		if inspect.StillHeld(u, d.Name) {
			return "", stands, nil
		}
		return "it is not held back any more", "", nil
	}
	u, err := client.Resource(inspect.DriftResource).Namespace(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return "it is gone", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot read drift %s: %w", d.Name, err)
	}
	now, err := inspect.DriftOf(u)
	if err != nil || inspect.Open(now) {
		return "", stands, err
	}
	return now.Status.Resolution, "", nil
}

// deletable reports whether the object of a Drift could be deleted now.
func (c *cli) deletable(ctx context.Context, d *v1alpha1.Drift) (how, waiting string, err error) {
	t, err := c.target(refOf(d.Spec.Child))
	if err != nil {
		return "", "", err
	}
	u, err := t.client.Get(ctx, t.GetName(), metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return "it is deleted", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot read %s: %w", t.describe(), err)
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return "", "", err
	}
	decision, err := i.Decide(ctx, i.Request(inspect.AttemptDelete, u, nil))
	if err != nil {
		return "", "", err
	}
	if !decision.Allowed {
		return "", t.describe() + " cannot be deleted yet: " + decision.Why, nil
	}
	return "it can be deleted now", "", nil
}
