package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/cli/inspect"
)

const (
	// completeTimeout: nobody waits longer for a completion.
	completeTimeout = 3 * time.Second
	maxCompletions  = 200
)

// annotationValues on a flag lists the values that are offered for it.
const annotationValues = "kausality-values"

// offer values of a flag for completion.
func offer(f *pflag.Flag, values ...string) {
	f.Annotations = map[string][]string{annotationValues: values}
}

// completeFlags of a command for which values are offered.
func completeFlags(cmd *cobra.Command) error {
	var failed error
	one := func(f *pflag.Flag) {
		if values := f.Annotations[annotationValues]; len(values) > 0 {
			failed = errors.Join(failed, cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(one)
	cmd.PersistentFlags().VisitAll(one)
	return failed
}

// completeObjects completes TYPE/NAME: types from discovery, names from the
// cluster. What cannot be read is not completed.
func (c *cli) completeObjects(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if kind, _, ok := strings.Cut(typed, "/"); ok {
		return c.completeNames(cmd, kind, typed), cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeTypes(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeSeveral completes TYPE/NAME..., each once; a TYPE alone is followed by
// no names.
func (c *cli) completeSeveral(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out, directive := c.completeObjects(cmd, nil, typed)
	return slices.DeleteFunc(out, func(s string) bool { return slices.Contains(args, s) }), directive
}

func (c *cli) completeTypes(typed string) []string {
	client, err := c.kube.ToDiscoveryClient()
	if err != nil {
		return nil
	}
	lists, err := client.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return nil
	}
	var out []string
	for _, l := range lists {
		group, _, grouped := strings.Cut(l.GroupVersion, "/")
		for _, r := range l.APIResources {
			name := r.Name
			if grouped {
				name += "." + group
			}
			if strings.HasPrefix(name, typed) && slices.Contains(r.Verbs, "get") && len(out) < maxCompletions {
				out = append(out, name+"/")
			}
		}
	}
	return out
}

func (c *cli) completeNames(cmd *cobra.Command, kind, typed string) []string {
	mapper, err := c.mapper()
	if err != nil {
		return nil
	}
	t, err := mapper.ResourceFor(resourceOf(kind))
	if err != nil {
		return nil
	}
	ns, err := c.namespace()
	if err != nil {
		return nil
	}
	client, err := c.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	list, err := client.Resource(t).Namespace(ns).List(ctx, metav1.ListOptions{Limit: maxCompletions})
	if err != nil { // cluster-scoped
		if list, err = client.Resource(t).List(ctx, metav1.ListOptions{Limit: maxCompletions}); err != nil {
			return nil
		}
	}
	var out []string
	for _, o := range list.Items {
		if s := kind + "/" + o.GetName(); strings.HasPrefix(s, typed) {
			out = append(out, s)
		}
	}
	return out
}

// completeIDs completes ids of open drifts, and objects; nobody gives both.
func (c *cli) completeIDs(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	out, directive := c.completeSeveral(cmd, args, typed)
	if len(args) > 0 && !onlyIDs(args) {
		return out, directive
	}
	ns, err := c.namespace()
	if err != nil {
		return out, directive
	}
	client, err := c.client()
	if err != nil {
		return out, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	drifts, err := inspect.Drifts(ctx, client, ns, inspect.Open)
	if err != nil {
		return out, directive
	}
	for i := range drifts {
		d := &drifts[i]
		if strings.HasPrefix(d.Name, typed) && !slices.Contains(args, d.Name) && len(out) < maxCompletions {
			out = append(out, d.Name+"\t"+summary(d))
			directive = cobra.ShellCompDirectiveNoFileComp
		}
	}
	return out, directive
}
