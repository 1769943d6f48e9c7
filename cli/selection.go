package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"
)

// selectOptions select several objects at once.
type selectOptions struct {
	selector string
	all      bool
	// everywhere: in all namespaces.
	everywhere bool
	// limit is how many objects are changed; 0 for all.
	limit int
}

// add adds the flags; all is the help text of --all.
func (o *selectOptions) add(cmd *cobra.Command, all string) {
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "With a TYPE alone: the objects of it in the namespace that have these labels, as in team=shop.")
	cmd.Flags().BoolVar(&o.all, "all", false, all)
	cmd.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "With a selection by flags: in all namespaces.")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "With a selection by flags: change at most so many, and leave the rest for the next time.")
}

// changeOptions select pending changes, or objects.
type changeOptions struct {
	selectOptions
	// cause is the key of one; empty for all.
	cause string
	// alsoResolved: ids may be of changes that wait no more.
	alsoResolved bool
}

// add adds the flags; all is the help text of --all.
func (o *changeOptions) add(cmd *cobra.Command, all string) {
	o.selectOptions.add(cmd, all)
	cmd.Flags().Lookup("selector").Usage = "Pending changes below parents with these labels, as in team=shop; with a TYPE: those of its objects with these labels."
	cmd.Flags().StringVar(&o.cause, "cause", "", "Pending changes of the cause with this key, as pending prints it.")
}

// filtered reports whether a flag selects changes or objects.
func (o *changeOptions) filtered() bool {
	return o.given() || o.cause != "" || o.everywhere || o.limit != 0
}

// decision returns the decision about objects that are named by arguments, or selected by the flags.
func (o *changeOptions) decision(question string) decision {
	d := o.selectOptions.decision(question)
	if o.filtered() {
		d.selection = asGroup
	}
	return d
}

// checkSelection checks the flags, before the cluster is read.
func (o *selectOptions) checkSelection() error {
	if o.limit < 0 {
		return usageError{errors.New("--limit must not be negative")}
	}
	return checkSelector(o.selector)
}

// checkSelector reports whether the value of --selector parses.
func checkSelector(selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return usageError{fmt.Errorf("--selector: %w", err)}
	}
	return nil
}

// allOfType is the help text of --all of commands that are about objects.
const allOfType = "With a TYPE alone: all objects of it in the namespace."

// given reports whether a flag selects the objects.
func (o *selectOptions) given() bool { return o.selector != "" || o.all }

// chunk is the page size of lists, in objects.
const chunk = 500

// selected returns the selected objects, each once, read live: those that are named, or those that a
// flag selects. There is at least one.
func (s *session) selected(cmd *cobra.Command, args []string, o *selectOptions) ([]target, error) {
	if err := o.checkSelection(); err != nil {
		return nil, err
	}
	if !o.given() {
		if o.everywhere || o.limit != 0 {
			return nil, usageError{errors.New("--all-namespaces and --limit need a selection by flags, as in: TYPE --selector")}
		}
		return s.objects(cmd, args)
	}
	flag := "--selector"
	if o.all {
		flag = "--all"
	}
	switch {
	case o.all && o.selector != "":
		return nil, usageError{errors.New("--all and --selector exclude each other; give one")}
	case len(args) != 1 || strings.Contains(args[0], "/"):
		return nil, usageError{fmt.Errorf("%s needs a TYPE and no names, as in: %s xdatabases %s", flag, cmd.CommandPath(), flag)}
	}
	list, err := s.read(cmd.Context(), args, func(b *resource.Builder) *resource.Builder {
		return b.LabelSelectorParam(o.selector).SelectAllParam(o.all).AllNamespaces(o.everywhere).RequestChunksOf(chunk)
	})
	if err == nil && len(list) == 0 {
		if o.everywhere {
			return nil, fmt.Errorf("there are no such %s in any namespace", args[0])
		}
		ns, err := s.namespace()
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("there are no such %s in namespace %s", args[0], ns)
	}
	return list, err
}

// decision returns the decision about objects that are named by arguments, or selected by the flags.
func (o *selectOptions) decision(question string) decision {
	d := decision{selection: byName, question: question, noun: "object", limit: o.limit}
	if o.given() {
		d.selection = asGroup
	}
	return d
}
