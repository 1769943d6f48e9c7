package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"
)

// whichOptions name several objects at once.
type whichOptions struct {
	selector string
	all      bool
}

// add the flags; all says what --all means.
func (o *whichOptions) add(cmd *cobra.Command, all string) {
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "With a TYPE alone: the objects of it in the namespace that have these labels, as in team=shop.")
	cmd.Flags().BoolVar(&o.all, "all", false, all)
}

// allOfType is what --all means to commands that are about objects.
const allOfType = "With a TYPE alone: all objects of it in the namespace."

// given reports whether a flag names the objects.
func (o *whichOptions) given() bool { return o.selector != "" || o.all }

// chunk is how many objects are read at once.
const chunk = 500

// which objects are meant, each once, read live: those that are named, or those
// that a flag selects. There is at least one.
func (c *cli) which(cmd *cobra.Command, args []string, o *whichOptions) ([]target, error) {
	if !o.given() {
		return c.objects(cmd, args)
	}
	flag := "--selector"
	if o.all {
		flag = "--all"
	}
	switch {
	case o.all && o.selector != "":
		return nil, usageError{errors.New("--all and --selector say different things; give one")}
	case len(args) != 1 || strings.Contains(args[0], "/"):
		return nil, usageError{fmt.Errorf("%s needs a TYPE and no names, as in: %s xdatabases %s", flag, cmd.CommandPath(), flag)}
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return nil, usageError{fmt.Errorf("--selector: %w", err)}
	}
	list, err := c.read(args, func(b *resource.Builder) *resource.Builder {
		return b.LabelSelectorParam(o.selector).SelectAllParam(o.all).RequestChunksOf(chunk)
	})
	if err == nil && len(list) == 0 {
		ns, err := c.namespace()
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("there are no such %s in namespace %s", args[0], ns)
	}
	return list, err
}

// decision about objects that are named by arguments, or selected by the flags.
func (o *whichOptions) decision(question string) decision {
	d := decision{named: byName, question: question, what: "object"}
	if o.given() {
		d.named = asGroup
	}
	return d
}
