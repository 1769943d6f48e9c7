package main

import (
	"path/filepath"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/cli"
	"github.com/kausality-io/function-kausality/hack/reference"
)

// TestReference compares docs/kubectl-commands.md with the commands and their
// flags; -update writes it.
func TestReference(t *testing.T) {
	root, err := cli.NewCommand(genericiooptions.NewTestIOStreamsDiscard(), "test")
	if err != nil {
		t.Fatal(err)
	}
	var list []reference.Command
	for _, c := range root.Commands() {
		list = append(list, reference.Command{Heading: c.Name(), Synopsis: "kubectl kausality " + c.Use, Short: c.Short, Flags: c.LocalNonPersistentFlags()})
		for _, sub := range c.Commands() {
			name := c.Name() + " " + sub.Name()
			list = append(list, reference.Command{Heading: name, Synopsis: "kubectl kausality " + c.Name() + " " + sub.Use, Short: sub.Short,
				Flags: sub.LocalNonPersistentFlags()})
		}
	}
	reference.Test(t, filepath.Join("..", "..", "docs", "kubectl-commands.md"),
		"# Commands of kubectl kausality\n\nGenerated from the source by `make generate`; [kubectl.md](kubectl.md) explains how to use them. In addition to its\n"+
			"own flags, each command takes kubectl's connection flags and `--default-mode`.\n", list)
}
