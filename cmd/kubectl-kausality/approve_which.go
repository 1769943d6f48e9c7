package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// meant Drifts: by their ids, all of the namespace, or those that stand about
// objects. group is true where it was not the person who named each.
func (c *cli) meant(cmd *cobra.Command, args []string, o *whichOptions) (list []v1alpha1.Drift, group bool, err error) {
	switch {
	case o.all && (len(args) > 0 || o.selector != ""):
		return nil, false, usageError{errors.New("--all names everything; give no arguments and no --selector with it")}
	case o.all:
		list, where, err := c.open(cmd, nil, false)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("nothing waits for approval %s", where)
		}
		return list, true, err
	case onlyIDs(args) && !o.given():
		list, err = c.identified(cmd, args)
		return list, false, err
	case slices.ContainsFunc(args, isID):
		return nil, false, usageError{errors.New("give ids or objects, not both")}
	}
	list, err = c.about(cmd, args, o)
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

// about objects, each difference once. Something of each must stand, or of one
// of those that a flag selects.
func (c *cli) about(cmd *cobra.Command, args []string, o *whichOptions) ([]v1alpha1.Drift, error) {
	targets, err := c.which(cmd, args, o)
	if err != nil {
		return nil, err
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return nil, err
	}
	var list []v1alpha1.Drift
	for _, t := range targets {
		open, err := openAbout(cmd.Context(), i, t)
		if err != nil {
			return nil, err
		}
		if len(open) == 0 && !o.given() {
			return nil, fmt.Errorf("nothing waits for approval about %s; to approve whatever comes, give --any", t.describe())
		}
		for _, d := range open {
			if !slices.ContainsFunc(list, func(have v1alpha1.Drift) bool { return have.Name == d.Name && have.Namespace == d.Namespace }) {
				list = append(list, d)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("nothing waits for approval about what is selected (%s); to approve whatever comes, give --any", plural(len(targets), "object"))
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
