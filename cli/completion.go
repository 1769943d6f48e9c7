package cli

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/choice"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

const (
	// completeTimeout bounds the requests of one completion: a shell waits for it
	// with every key.
	completeTimeout = 3 * time.Second
	maxCompletions  = 200
)

// completeFlags registers the completions of a command's flags that have a fixed set of values.
func completeFlags(cmd *cobra.Command) error {
	var failed error
	one := func(f *pflag.Flag) {
		if values := choice.Of(f); len(values) > 0 {
			failed = errors.Join(failed, cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(one)
	cmd.PersistentFlags().VisitAll(one)
	return failed
}

// completer completes arguments from the cluster. What cannot be read is not
// completed: a shell has no place for an error.
type completer struct{ *session }

// object completes TYPE/NAME: types from discovery, names from the cluster.
func (c completer) object(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if kind, _, ok := strings.Cut(typed, "/"); ok {
		return c.names(cmd, kind, typed), cobra.ShellCompDirectiveNoFileComp
	}
	return c.types(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// objects completes TYPE/NAME..., each once; no names follow a TYPE alone.
func (c completer) objects(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out, directive := c.object(cmd, nil, typed)
	return slices.DeleteFunc(out, func(s string) bool { return slices.Contains(args, s) }), directive
}

// types returns the types that can be read, as TYPE.GROUP/ so that a name can follow.
func (c completer) types(typed string) []string {
	var out []string
	for r, suffix := range served(c.kube) {
		if name := r.Name + suffix; strings.HasPrefix(name, typed) && slices.Contains(r.Verbs, "get") && len(out) < maxCompletions {
			out = append(out, name+"/")
		}
	}
	return out
}

// served yields the resources that the API server serves, as far as that can be read, each with its group as the end of a name, as in
// ".example.org"; empty for the core group.
func served(kube *genericclioptions.ConfigFlags) iter.Seq2[metav1.APIResource, string] {
	return func(yield func(metav1.APIResource, string) bool) {
		client, err := kube.ToDiscoveryClient()
		if err != nil {
			return
		}
		lists, _ := client.ServerPreferredResources() // those that could be read
		for _, l := range lists {
			suffix := ""
			if group, _, grouped := strings.Cut(l.GroupVersion, "/"); grouped {
				suffix = "." + group
			}
			for _, r := range l.APIResources {
				if !yield(r, suffix) {
					return
				}
			}
		}
	}
}

// names returns the names of a type in the namespace, else of a cluster-scoped type, as TYPE/NAME.
func (c completer) names(cmd *cobra.Command, kind, typed string) []string {
	var out []string
	for _, name := range namesOf(c.objectsOf(cmd.Context(), kind)) {
		if s := kind + "/" + name; strings.HasPrefix(s, typed) {
			out = append(out, s)
		}
	}
	return out
}

// objectsOf returns the objects of a type in the namespace, else of a cluster-scoped type.
func (c completer) objectsOf(ctx context.Context, kind string) []unstructured.Unstructured {
	conn, err := c.connection()
	if err != nil {
		return nil
	}
	t, err := conn.mapper.ResourceFor(resourceOf(kind))
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	list, err := conn.Resource(t).Namespace(conn.namespace).List(ctx, metav1.ListOptions{Limit: maxCompletions})
	if err != nil { // cluster-scoped
		if list, err = conn.Resource(t).List(ctx, metav1.ListOptions{Limit: maxCompletions}); err != nil {
			return nil
		}
	}
	return list.Items
}

// ids completes ids of open Drifts, and objects. A command line has either ids
// or objects, so that only ids follow an id.
func (c completer) ids(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	out, directive := c.objects(cmd, args, typed)
	if len(args) > 0 && !onlyIDs(args) {
		return out, directive
	}
	conn, err := c.connection()
	if err != nil {
		return out, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	drifts, err := inspect.Drifts(ctx, conn, conn.namespace, channel.Open)
	if err != nil {
		return out, directive
	}
	for i := range drifts {
		d := &drifts[i]
		if strings.HasPrefix(d.Name, typed) && !slices.Contains(args, d.Name) && len(out) < maxCompletions {
			out = append(out, d.Name+"\t"+channel.Summary(d))
			directive = cobra.ShellCompDirectiveNoFileComp
		}
	}
	return out, directive
}
