package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

var idPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// isID reports whether an argument is the id of a difference.
func isID(s string) bool { return idPattern.MatchString(s) }

// onlyIDs reports whether there are arguments, all of them ids.
func onlyIDs(args []string) bool {
	return len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool { return !isID(a) })
}

// driftFinder finds the pending changes that a command line selects, as Drifts.
type driftFinder struct{ *session }

// selected Drifts: by their ids, all of the namespace, or those about objects.
// group is true where the user did not name each.
func (f driftFinder) selected(cmd *cobra.Command, args []string, o *selectOptions) (list []v1alpha1.Drift, group bool, err error) {
	switch {
	case o.all && (len(args) > 0 || o.selector != ""):
		return nil, false, usageError{errors.New("--all selects everything; give no arguments and no --selector with it")}
	case o.all:
		list, where, err := f.open(cmd, nil, false)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("nothing waits for approval %s", where)
		}
		return list, true, err
	case onlyIDs(args) && !o.given():
		list, err = f.identified(cmd, args)
		return list, false, err
	case slices.ContainsFunc(args, isID):
		return nil, false, usageError{errors.New("give ids or objects, not both")}
	}
	list, err = f.about(cmd, args, o)
	return list, true, err
}

// identified by their ids, and open.
func (f driftFinder) identified(cmd *cobra.Command, ids []string) ([]v1alpha1.Drift, error) {
	ns, err := f.namespace()
	if err != nil {
		return nil, err
	}
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	list := make([]v1alpha1.Drift, 0, len(ids))
	for _, id := range ids {
		d, err := f.byID(cmd.Context(), client, ns, id)
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

// about objects, each difference once. Each object that is named must have a
// pending change, and at least one of those that a flag selects.
func (f driftFinder) about(cmd *cobra.Command, args []string, o *selectOptions) ([]v1alpha1.Drift, error) {
	targets, err := f.session.selected(cmd, args, o)
	if err != nil {
		return nil, err
	}
	i, err := f.inspector(cmd.Context())
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
			return nil, fmt.Errorf("nothing waits for approval about %s; to approve any change in advance, give --any", t.describe())
		}
		for _, d := range open {
			if !slices.ContainsFunc(list, func(have v1alpha1.Drift) bool { return have.Name == d.Name && have.Namespace == d.Namespace }) {
				list = append(list, d)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("nothing waits for approval about what is selected (%s); to approve any change in advance, give --any",
			plural(len(targets), "object"))
	}
	return list, nil
}

// byID finds a Drift, or what the function holds. Where there is only a resolved
// Drift of that id it is returned.
func (f driftFinder) byID(ctx context.Context, client dynamic.Interface, ns, id string) (*v1alpha1.Drift, error) {
	d, notFound := inspect.Find(ctx, client, ns, id)
	if notFound == nil && inspect.Open(d) {
		return d, nil
	}
	mapper, err := f.mapper()
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

// open Drifts about an object, of the namespace, or of all namespaces; where
// completes a sentence about them.
func (f driftFinder) open(cmd *cobra.Command, args []string, all bool) (list []v1alpha1.Drift, where string, err error) {
	ns, err := f.namespace()
	if err != nil {
		return nil, "", err
	}
	client, err := f.client()
	if err != nil {
		return nil, "", err
	}
	where = "in namespace " + ns
	if all {
		ns, where = "", "in any namespace"
	}
	if len(args) == 0 {
		mapper, err := f.mapper()
		if err != nil {
			return nil, "", err
		}
		list, err = inspect.Pending(cmd.Context(), client, mapper, ns)
		return list, where, err
	}
	t, err := f.object(cmd, args)
	if err != nil {
		return nil, "", err
	}
	i, err := f.inspector(cmd.Context())
	if err != nil {
		return nil, "", err
	}
	list, err = openAbout(cmd.Context(), i, t)
	return list, "about " + t.describe(), err
}

// openAbout are the open Drifts about an object or its children.
func openAbout(ctx context.Context, i *inspect.Inspector, t target) ([]v1alpha1.Drift, error) {
	all, err := i.About(ctx, t.Unstructured)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(d v1alpha1.Drift) bool { return !inspect.Open(&d) }), nil
}
