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
}

// add the flags; all is the help text of --all.
func (o *selectOptions) add(cmd *cobra.Command, all string) {
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "With a TYPE alone: the objects of it in the namespace that have these labels, as in team=shop.")
	cmd.Flags().BoolVar(&o.all, "all", false, all)
}

// allOfType is the help text of --all of commands that are about objects.
const allOfType = "With a TYPE alone: all objects of it in the namespace."

// given reports whether a flag selects the objects.
func (o *selectOptions) given() bool { return o.selector != "" || o.all }

// chunk is the page size of lists, in objects.
const chunk = 500

// selected objects, each once, read live: those that are named, or those that a
// flag selects. There is at least one.
func (s *session) selected(cmd *cobra.Command, args []string, o *selectOptions) ([]target, error) {
	if !o.given() {
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
	if _, err := labels.Parse(o.selector); err != nil {
		return nil, usageError{fmt.Errorf("--selector: %w", err)}
	}
	list, err := s.read(args, func(b *resource.Builder) *resource.Builder {
		return b.LabelSelectorParam(o.selector).SelectAllParam(o.all).RequestChunksOf(chunk)
	})
	if err == nil && len(list) == 0 {
		ns, err := s.namespace()
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("there are no such %s in namespace %s", args[0], ns)
	}
	return list, err
}

// decision about objects that are named by arguments, or selected by the flags.
func (o *selectOptions) decision(question string) decision {
	d := decision{selection: byName, question: question, noun: "object"}
	if o.given() {
		d.selection = asGroup
	}
	return d
}
