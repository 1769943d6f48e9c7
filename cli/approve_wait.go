package cli

import (
	"context"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// awaitAll waits, one after the other, until each Drift is resolved or, of the
// deletion of an external resource, until a DELETE would be allowed: approving
// it deletes nothing.
func (c *approveCommand) awaitAll(ctx context.Context, list []annotationWrite) error {
	conn, err := c.connection()
	if err != nil {
		return err
	}
	for n := range list {
		d := list[n].drift
		how := ""
		err := c.until(ctx, func(ctx context.Context) (waiting string, err error) {
			if d.Spec.Relation == v1alpha1.RelationExternal && d.Spec.Operation == string(admission.Delete) {
				how, waiting, err = c.deletable(ctx, d)
				return waiting, err
			}
			how, waiting, err = c.resolved(ctx, conn, d)
			return waiting, err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOut, "%s %s: %s\n", c.view.green("done"), d.Name, how)
	}
	return nil
}

// resolved reports how a Drift was resolved, or what is waited for.
func (c *approveCommand) resolved(ctx context.Context, conn connection, d *v1alpha1.Drift) (how, waiting string, err error) {
	pending := "drift " + d.Name + " is still pending: " + channel.Summary(d)
	if inspect.IsHeld(d) {
		still, err := c.stillHeld(ctx, conn, d)
		if err != nil || still {
			return "", pending, err
		}
		return "it is no longer held", "", nil
	}
	u, err := conn.Resource(inspect.DriftResource).Namespace(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return "the Drift is gone", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot read drift %s: %w", d.Name, err)
	}
	now, err := inspect.DriftOf(u)
	if err != nil || channel.Open(now) {
		return "", pending, err
	}
	return now.Status.Resolution, "", nil
}

// stillHeld reports whether the composition function still holds a change.
func (c *approveCommand) stillHeld(ctx context.Context, conn connection, d *v1alpha1.Drift) (bool, error) {
	t, err := c.target(identity.Ref(d.Spec.Parent))
	if err != nil {
		return false, err
	}
	u, err := t.client.Get(ctx, t.GetName(), metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("cannot read %s: %w", t.describe(), err)
	}
	return inspect.StillHeld(ctx, conn, conn.mapper, u, d.Name)
}

// deletable reports whether the object of a Drift could be deleted now, or what
// is waited for.
func (c *approveCommand) deletable(ctx context.Context, d *v1alpha1.Drift) (how, waiting string, err error) {
	t, err := c.target(identity.Ref(d.Spec.Child))
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
