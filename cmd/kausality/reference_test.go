package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the reference anew")

// TestReference: docs/commands.md has every command of this program and every flag
// of each, as --help says them. -update writes it.
func TestReference(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "commands.md")
	var out strings.Builder
	out.WriteString("# Commands of kausality\n\nWritten from the source by `make generate`. Those of the plugin: [kubectl-commands.md](kubectl-commands.md).\n")
	reference(&out, root())
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil { //nolint:gosec // Part of the repository.
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), out.String()); diff != "" {
		t.Errorf("run make generate; docs/commands.md is stale (-):\n%s", diff)
	}
}

// reference of a command and those below it.
func reference(out *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(out, "\n## %s\n\n`%s`\n\n%s\n", cmd.CommandPath(), cmd.UseLine(), cmd.Short)
	if cmd.Short == "" {
		out.WriteString("MISSING\n")
	}
	flags := 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if flags++; flags == 1 {
			out.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.Value.Type() != "bool" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, value, strings.NewReplacer("|", "\\|", "\n", " ").Replace(f.Usage))
	})
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			reference(out, c)
		}
	}
}
