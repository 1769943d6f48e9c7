package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/cmd/internal/reference"
)

func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	cmd, err := root(genericiooptions.NewTestIOStreamsDiscard())
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Commands()
}

// TestReference: docs/kubectl-commands.md has every command and every flag of it,
// as --help says them. -update writes it.
func TestReference(t *testing.T) {
	var list []reference.Command
	for _, c := range commands(t) {
		list = append(list, reference.Command{Heading: c.Name(), Synopsis: "kubectl kausality " + c.Use, Short: c.Short, Flags: c.LocalNonPersistentFlags()})
	}
	reference.Test(t, filepath.Join("..", "..", "docs", "kubectl-commands.md"),
		"# Commands of kubectl kausality\n\nWritten from the source by `make generate`; [kubectl.md](kubectl.md) says how they are used. Beside its own each\n"+
			"takes kubectl's flags for the connection, and `--default-mode`.\n", list)
}

// TestAlike: what is true of every command. All give JSON and YAML, what writes
// has a dry run, takes groups and asks, and all have completions for what they take.
func TestAlike(t *testing.T) {
	writing := []string{"approve", "reject", "freeze", "unfreeze", "snooze", "ungate"}
	none := []string{"version", "coverage", "preview"} // no arguments, or a file, which the shell completes by itself
	all := commands(t)
	if len(all) != 12 {
		t.Errorf("there are %d commands", len(all))
	}
	for _, c := range all {
		o := c.Flags().Lookup("output")
		if o == nil || o.Shorthand != "o" || !strings.Contains(o.Usage, "json, yaml") {
			t.Errorf("%s has no -o json|yaml", c.Name())
		}
		if dry := c.Flags().Lookup("dry-run"); (dry != nil) != slices.Contains(writing, c.Name()) || dry != nil && (dry.DefValue != "none" || dry.NoOptDefVal != "client") {
			t.Errorf("%s: its --dry-run is %+v", c.Name(), dry)
		}
		for _, flag := range []string{"yes", "selector", "all"} {
			want := slices.Contains(writing, c.Name()) && (flag != "selector" || c.Name() != "ungate") // which looks for what is masked by itself
			if have := c.Flags().Lookup(flag) != nil; have != want {
				t.Errorf("%s: it has --%s: %t, want %t", c.Name(), flag, have, want)
			}
		}
		if (c.ValidArgsFunction == nil) != slices.Contains(none, c.Name()) {
			t.Errorf("%s: want completion of what it takes", c.Name())
		}
	}
}

// TestVersion in all formats, and that another one is a wrong command line.
func TestVersion(t *testing.T) {
	for format, want := range map[string]string{"json": `"version": "`, "yaml": "version: ", "": version() + "\n"} {
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		cmd, err := root(streams)
		if err != nil {
			t.Fatal(err)
		}
		cmd.SetArgs([]string{"version", "--output=" + format})
		if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: error %v, output %s", format, err, out)
		}
	}
	cmd, err := root(genericiooptions.NewTestIOStreamsDiscard())
	if err != nil {
		t.Fatal(err)
	}
	cmd.SetArgs([]string{"version", "-o", "xml"})
	if usage := (usageError{}); !errors.As(cmd.Execute(), &usage) {
		t.Error("want a wrong command line")
	}
}
