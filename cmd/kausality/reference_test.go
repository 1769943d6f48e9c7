package main

import (
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/hack/reference"
)

// TestReference: docs/commands.md has every command of this program and every flag
// of each, as in --help. -update writes it.
func TestReference(t *testing.T) {
	reference.Test(t, filepath.Join("..", "..", "docs", "commands.md"),
		"# Commands of kausality\n\nWritten from the source by `make generate`. Those of the plugin: [kubectl-commands.md](kubectl-commands.md).\n", below(root()))
}

// below are a command and those below it.
func below(cmd *cobra.Command) []reference.Command {
	out := []reference.Command{{Heading: cmd.CommandPath(), Synopsis: cmd.UseLine(), Short: cmd.Short, Flags: cmd.LocalFlags()}}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			out = append(out, below(c)...)
		}
	}
	return out
}
